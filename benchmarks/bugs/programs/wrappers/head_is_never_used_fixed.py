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


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.main = nn.Linear(16, 4)
        self.auxiliary = nn.Linear(16, 2)

    def forward(self, x, auxiliary=False):
        hidden = self.body(x).relu()
        return self.auxiliary(hidden) if auxiliary else self.main(hidden)


def main():
    rank, _ = init_distributed()
    model = DDP(MultiTask(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
