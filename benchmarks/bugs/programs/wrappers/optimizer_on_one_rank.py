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


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(4):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        if rank == 0:
            optimizer.step()
    probe = model.module.head.weight.detach().square().sum()
    probes = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(probes, probe)
    assert probes[0] == probes[-1], f"replicas differ: {[p.item() for p in probes]}"
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
