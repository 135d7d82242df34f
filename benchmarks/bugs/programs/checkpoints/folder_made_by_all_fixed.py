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


def main():
    rank, _ = init_distributed()
    if rank == 0:
        os.makedirs("runs/first")
    dist.barrier()
    model = DDP(Net())
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    if rank == 0:
        torch.save(model.module.state_dict(), "runs/first/model.pt")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
