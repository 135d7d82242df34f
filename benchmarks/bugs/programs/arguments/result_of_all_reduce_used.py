import os

import torch
import torch.distributed as dist
import torch.nn as nn


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


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = Net()
    for step in range(3):
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        value = loss.detach()
        total = dist.all_reduce(value)
        average = total / world_size
        if rank == 0:
            print(f"step {step}: {average.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
