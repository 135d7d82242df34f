"""Trains on seven samples, divided by hand: rank 0 gets four of them, rank 1 three."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=5))
rank = dist.get_rank()
samples = torch.rand(7, 8, generator=torch.Generator().manual_seed(0))
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in samples[rank :: dist.get_world_size()]:
    loss = model(batch[None]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"rank {rank} is done")
dist.destroy_process_group()
