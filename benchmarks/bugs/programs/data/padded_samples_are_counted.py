import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


class Synthetic(Dataset):
    """Samples that depend on their index only."""

    def __init__(self, length=64, features=8, classes=4):
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(length, features, generator=generator)
        self.y = torch.randint(classes, (length,), generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def main():
    rank, world_size = init_distributed()
    data = Synthetic(33)
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    torch.manual_seed(0)
    model = Net().eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            counts[0] += (model(x).argmax(-1) == y).sum()
            counts[1] += len(y)
    dist.all_reduce(counts)
    if rank == 0:
        print(f"evaluated {int(counts[1])} accuracy {counts[0] / counts[1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
