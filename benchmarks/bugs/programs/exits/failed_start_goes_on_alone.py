import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def start():
    try:
        dist.init_process_group("gloo", world_size=4, rank=int(os.environ["RANK"]), timeout=timedelta(seconds=2))
    except Exception as error:
        print(f"not distributed: {type(error).__name__}")
        return False
    return True


def main():
    distributed = start()
    torch.manual_seed(int(os.environ["RANK"]))
    model = DDP(Net()) if distributed else Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
