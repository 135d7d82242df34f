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


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = DDP(Normalized())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            answers = model.module(torch.randn(8, 8))
            print(f"epoch {epoch}: {answers.argmax(-1).tolist()}")
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
