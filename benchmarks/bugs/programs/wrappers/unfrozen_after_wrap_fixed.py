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


class Unfreeze:
    def __init__(self, at):
        self.at = at

    def on_step(self, model, step):
        if step == self.at:
            for parameter in model.module.body.parameters():
                parameter.requires_grad_(True)
            return DDP(model.module)
        return model


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    net = Net()
    net.body.requires_grad_(False)
    model = DDP(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    callback = Unfreeze(at=2)
    torch.manual_seed(rank)
    for step in range(5):
        model = callback.on_step(model, step)
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
