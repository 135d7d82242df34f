import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


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


class Pruner:
    """Removes random weights of the head after each step."""

    def __init__(self, model, share=0.2):
        self.weight, self.share = model.module.head.weight, share

    @torch.no_grad()
    def __call__(self, optimizer, args, kwargs):
        mask = torch.rand_like(self.weight) > self.share
        mask = mask.float()
        dist.broadcast(mask, src=0)
        self.weight.mul_(mask)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(rank)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = Pruner(model)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pruner(optimizer, None, None)
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
