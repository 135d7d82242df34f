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


def watch_gradients(model, record):
    def hook(gradient):
        norm = gradient.norm()
        dist.all_reduce(norm, op=dist.ReduceOp.MAX)
        record.append(norm.item())

    model.head.weight.register_hook(hook)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = Net()
    record = []
    if rank == 0:
        watch_gradients(model, record)
    for _ in range(3):
        loss = model(torch.randn(4, 8)).square().mean()
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    if rank == 0:
        print("largest gradient", max(record))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
