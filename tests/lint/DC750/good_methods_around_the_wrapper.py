"""Methods of the network make the inputs and the loss, and the wrapper's forward is between them."""

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

    def distance(self, y, x):
        return (y - x).pow(2).mean()

    def forward(self, z):
        return self.decode(z)


def main(loader, local_rank):
    dist.init_process_group("nccl")
    coder = Coder().cuda(local_rank)
    wrapped = DistributedDataParallel(coder, device_ids=[local_rank])
    optimizer = torch.optim.AdamW(wrapped.parameters())
    for x in loader:
        with torch.no_grad():
            z = coder.encode(x)
        loss = coder.distance(wrapped(z), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
