import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Readings(Dataset):
    def __init__(self, length=48):
        generator = torch.Generator().manual_seed(31)
        self.values = torch.randn(length, 5, generator=generator)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


def rank_and_size():
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def loader_of(data, batch_size):
    rank, size = rank_and_size()
    sampler = DistributedSampler(data, num_replicas=size, rank=rank)
    return DataLoader(data, batch_size=batch_size, sampler=sampler), sampler


def main():
    torch.manual_seed(5)
    dist.init_process_group("gloo")
    loader, sampler = loader_of(Readings(), 4)
    ddp = DistributedDataParallel(nn.Linear(5, 5))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    sampler.set_epoch(0)
    for values in loader:
        loss = (ddp(values) - values.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
