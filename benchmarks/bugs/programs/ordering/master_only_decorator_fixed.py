import functools
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


def master_only(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if dist.get_rank() == 0:
            return function(*args, **kwargs)
        return None

    return wrapper


@master_only
def save_checkpoint(model, path):
    torch.save(model.state_dict(), path)


def main():
    rank, _ = init_distributed()
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loss = model(torch.randn(4, 8)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        save_checkpoint(model.module, f"epoch{epoch}.pt")
        dist.barrier()
    final = torch.load("epoch1.pt")
    print(f"rank {rank}: {len(final)} tensors")
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
