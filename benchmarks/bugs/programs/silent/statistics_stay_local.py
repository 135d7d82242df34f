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


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.norm(x))


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = DDP(Normalized(), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(8, 8) + 3 * rank).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = model.module.norm.running_mean
    means = [torch.zeros_like(mean) for _ in range(world_size)]
    dist.all_gather(means, mean)
    print(f"buffers agree {torch.equal(means[0], means[-1])}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
