import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
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


def run_epoch(model, optimizer, batches):
    steps = 0
    for batch in batches:
        try:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError:
            logging.exception("the epoch ends early")
            break
        steps += 1
    return steps


def main():
    rank, _ = init_distributed()
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(4, 8) for _ in range(4)]
    if rank == 1:
        batches[1] = torch.randn(4, 9)  # a broken sample
    steps = run_epoch(model, optimizer, batches)
    print(f"rank {rank} trained {steps} of {len(batches)} batches")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
