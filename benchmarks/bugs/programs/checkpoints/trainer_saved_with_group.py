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


class Trainer:
    def __init__(self):
        self.group = dist.new_group()
        self.model = Net()
        self.step = 0

    def train(self):
        self.step += 1
        value = torch.tensor([float(self.step)])
        dist.all_reduce(value, group=self.group)

    def save(self, path):
        torch.save(self, path)


def main():
    rank, _ = init_distributed()
    trainer = Trainer()
    trainer.train()
    if rank == 0:
        trainer.save("trainer.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
