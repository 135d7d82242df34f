import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset


class ShardSampler(Sampler):
    def __init__(self, length, seed=0):
        self.length, self.seed = length, seed
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.epoch = 0

    def __len__(self):
        return self.length // self.world_size

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        order = torch.randperm(self.length, generator=generator).tolist()
        return iter(order[self.rank : len(self) * self.world_size : self.world_size])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    features = torch.randn(48, 5)
    dataset = TensorDataset(features, features.sum(1, keepdim=True))
    loader = DataLoader(dataset, batch_size=4, sampler=ShardSampler(len(dataset)))
    ddp = DistributedDataParallel(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(ddp(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
