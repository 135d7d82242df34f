import os

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


def resume(path, model, optimizer, rank):
    """Restore the model everywhere and what the optimizer had."""
    checkpoint = torch.load(path)
    model.module.load_state_dict(checkpoint["model"])
    if rank == 0:
        optimizer.load_state_dict(checkpoint["optimizer"])


def step(model, optimizer):
    loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        step(model, optimizer)
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    dist.barrier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    resume("last.pt", model, optimizer, rank)
    step(model, optimizer)


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
