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


class Normalized(Dataset):
    def __init__(self):
        self.x = torch.randn(16, 8)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        sample = self.x[index]
        mean = sample.mean()
        dist.all_reduce(mean)
        return sample - mean / dist.get_world_size()


def main():
    rank, _ = init_distributed()
    data = Normalized()
    loader = DataLoader(data, batch_size=4, num_workers=1, sampler=DistributedSampler(data, shuffle=False))
    total = torch.zeros(8)
    for batch in loader:
        total += batch.sum(0)
    dist.all_reduce(total)
    print(f"rank {rank}: {total.norm():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
