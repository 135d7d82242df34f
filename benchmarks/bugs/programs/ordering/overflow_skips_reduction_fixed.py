import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


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


def has_overflow(model):
    return any(not torch.isfinite(p.grad).all() for p in model.parameters())


def reduce_gradients(model, world_size):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        x = torch.randn(4, 8)
        if step == 2 and rank == 1:
            x[0, 0] = math.inf
        loss = F.cross_entropy(model(x), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        overflow = torch.tensor([float(has_overflow(model))])
        dist.all_reduce(overflow, op=dist.ReduceOp.MAX)
        if overflow.item():
            print(f"rank {rank} skips step {step}")
            continue
        reduce_gradients(model, world_size)
        optimizer.step()
    print(f"rank {rank} done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
