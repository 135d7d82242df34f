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
FILES = {"part0": 24, "part1": 40}


class Files(IterableDataset):
    def __init__(self, names):
        self.names = names

    def __iter__(self):
        for name in self.names:
            for index in range(FILES[name]):
                yield torch.full((8,), index / 10), index % 4


def main():
    rank, world_size = init_distributed()
    names = sorted(FILES)[rank::world_size]
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = torch.tensor([sum(FILES[name] for name in names) // 8])
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)
    for step, (x, y) in enumerate(DataLoader(Files(names), batch_size=8)):
        if step == int(steps):
            break
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
