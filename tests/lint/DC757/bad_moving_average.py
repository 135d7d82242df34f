import copy
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

@torch.no_grad()
def update_ema(ema, model, decay=0.999):
    for target, source in zip(ema.parameters(), model.parameters()):
        target.lerp_(source, 1 - decay)


def main():
    rank, world_size, device = setup()
    model = DDP(Net().to(device), device_ids=[device.index])
    ema = copy.deepcopy(model.module)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(1000):
        x = torch.randn(4, 32, device=device)
        loss = F.mse_loss(model(x), ema(x).detach())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            update_ema(ema, model.module)  # expect: DC757
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
