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


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.expert = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        hidden = self.body(x)
        if x.mean() > 5:
            hidden = hidden + self.expert(hidden)
        return self.head(hidden)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = DDP(Gated(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(4, 8) + (10 if rank == 0 else 0)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
