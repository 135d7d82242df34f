"""Both coordinates are the node's: each node trains on the same items."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
data = TensorDataset(torch.arange(100.0))
sampler = DistributedSampler(data, torch.cuda.device_count(), local_rank, shuffle=False)  # expect: DC219=info
print(len(sampler))
dist.destroy_process_group()
