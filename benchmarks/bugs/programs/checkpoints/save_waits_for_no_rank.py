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


class Checkpointer:
    def __init__(self, rank):
        self.rank = rank

    def save(self, model, step):
        if self.rank != 0:
            return
        torch.save(model.state_dict(), f"step{step}.pt")
        dist.barrier()


def main():
    rank, _ = init_distributed()
    checkpointer = Checkpointer(rank)
    model = Net()
    for step in range(3):
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
        checkpointer.save(model, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
