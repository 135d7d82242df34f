import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    def __init__(self, shards, rank, size):
        self.shards, self.rank, self.size = shards, rank, size

    def __iter__(self):
        worker = get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        mine = range(self.shards)[self.rank * count + number :: self.size * count]
        for shard in mine:
            generator = torch.Generator().manual_seed(shard)
            for _ in range(3):
                yield torch.cat([torch.tensor([float(shard)]), torch.randn(4, generator=generator)])


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    loader = DataLoader(Shards(16, rank, size), batch_size=3, num_workers=2)
    ddp = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    seen = torch.zeros(16)
    for rows in loader:
        seen.index_add_(0, rows[:, 0].long(), torch.full((len(rows),), 1 / 3))
        loss = (ddp(rows[:, 1:]) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.all_reduce(seen)
    print(f"rank {rank} a shard is read {seen.max().round().item():.0f} times")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
