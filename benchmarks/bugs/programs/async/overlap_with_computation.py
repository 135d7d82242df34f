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


class Overlap:
    def __init__(self, model, world_size):
        self.pending, self.world_size = [], world_size
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.reduce)

    def reduce(self, parameter):
        parameter.grad /= self.world_size
        self.pending.append(dist.all_reduce(parameter.grad, async_op=True))

    def finish(self):
        while self.pending:
            self.pending.pop().wait()


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = Net()
    overlap = Overlap(model, world_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,))).backward()
        overlap.finish()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
