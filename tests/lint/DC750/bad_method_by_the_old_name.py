"""The optimizer steps the parameters of the wrapper, and the loss comes from a method of the network inside."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)

    def encode(self, x):
        return self.down(x)

    def decode(self, z):
        return self.up(z)

    def forward(self, x):
        return self.decode(self.encode(x))


def main(loader, local_rank):
    dist.init_process_group("nccl")
    coder = Coder().cuda(local_rank)
    wrapped = DistributedDataParallel(coder, device_ids=[local_rank])
    optimizer = torch.optim.AdamW(wrapped.parameters())
    for x in loader:
        with torch.no_grad():
            z = coder.encode(x)
        loss = (coder.decode(z) - x).pow(2).mean()  # expect: DC750=warning
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
