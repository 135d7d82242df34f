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
class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.body(x)

class Average:
    def __init__(self, device):
        self.total = torch.zeros(2, device=device)

    def update(self, value, n):
        self.total += torch.tensor([value * n, n], device=self.total.device)

    @property
    def mean(self):
        total = self.total.clone()
        dist.all_reduce(total)
        return (total[0] / total[1]).item()


def main():
    rank, world_size, device = setup()
    model = DDP(Net().to(device), device_ids=[device.index])
    losses = Average(device)
    for step in range(100):
        loss = model(torch.randn(4, 32, device=device)).mean()
        loss.backward()
        losses.update(loss.item(), 4)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {losses.mean:.3f}")  # expect: DC701
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
