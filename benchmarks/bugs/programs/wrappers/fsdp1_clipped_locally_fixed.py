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
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
LIMIT = 0.5


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = FSDP(Net(), device_id=torch.device("cpu"), use_orig_params=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = 100 * model(torch.ones(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        model.clip_grad_norm_(LIMIT)
        squares = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None)
        squares = torch.as_tensor(squares, dtype=torch.float).clone()
        dist.all_reduce(squares)
        print(f"norm within limit {squares.sqrt().item() <= LIMIT * 1.001}")
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
