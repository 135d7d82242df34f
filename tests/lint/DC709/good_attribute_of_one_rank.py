import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    return dist.get_rank(), dist.get_world_size(), torch.device("cuda", local_rank)

class Tower(nn.Module):
    def __init__(self, rank, width=64, probe=False):
        super().__init__()
        self.rank = rank
        self.stem = nn.Linear(32, width)
        self.head = nn.Linear(width, 10)
        if probe:
            self.probe = nn.Linear(width, 2)
        if rank == 0:
            self.history = []

    def forward(self, x):
        if self.rank == 0:
            self.history.append(x.mean().item())
        return self.head(self.stem(x).relu())


def main():
    rank, world_size, device = setup()
    model = DDP(Tower(rank).to(device), device_ids=[device.index], find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        model(torch.randn(4, 32, device=device)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
