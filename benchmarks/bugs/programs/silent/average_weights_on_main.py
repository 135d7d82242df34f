import copy
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


class MovingAverage:
    def __init__(self, model, decay=0.5):
        self.model, self.decay = copy.deepcopy(model), decay

    @torch.no_grad()
    def update(self, model):
        for mine, other in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(other, 1 - self.decay)


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = DDP(Net())
    average = MovingAverage(model.module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(4):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            average.update(model.module)
    norm = average.model.head.weight.detach().norm()
    norms = [torch.zeros(()) for _ in range(world_size)]
    dist.all_gather(norms, norm)
    print(f"averaged norm agrees {torch.equal(norms[0], norms[-1])}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
