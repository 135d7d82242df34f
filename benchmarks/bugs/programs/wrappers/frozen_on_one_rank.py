import json
import os
from pathlib import Path

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


def freeze_body(model, configuration):
    if configuration.get("freeze"):
        for parameter in model.body.parameters():
            parameter.requires_grad_(False)


def read_configuration(path):
    return json.loads(path.read_text()) if path.exists() else {}


def main():
    rank, _ = init_distributed()
    path = Path(f"node{rank}.json")
    if rank == 0:
        path.write_text(json.dumps({"freeze": True}))
    configuration = read_configuration(path)
    torch.manual_seed(0)
    model = Net()
    freeze_body(model, configuration)
    model = DDP(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
