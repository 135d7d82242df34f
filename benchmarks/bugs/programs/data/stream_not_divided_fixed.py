import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


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


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        generator = torch.Generator().manual_seed(3)
        for index in range(self.length):
            sample = torch.randn(8, generator=generator)
            if index % dist.get_world_size() == dist.get_rank():
                yield sample, index % 4


def main():
    init_distributed()
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(Stream(32), batch_size=8):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
