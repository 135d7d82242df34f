"""The job runs on CPUs: the group gives it a rank and a size, and nothing communicates. A note."""
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

rank = int(os.environ["RANK"])
size = int(os.environ["WORLD_SIZE"])
dist.init_process_group("nccl", rank=rank, world_size=size)  # expect: DC206=info
model = torch.nn.Linear(8, 8).to("cpu")
data = TensorDataset(torch.randn(64, 8))
for (batch,) in DataLoader(data, sampler=DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)):
    model(batch)
