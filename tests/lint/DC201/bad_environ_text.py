"""The index comes from RANK, the device is a text."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
device = f"cuda:{rank}"  # expect: DC201=info
torch.cuda.set_device(device)
dist.init_process_group("nccl")
weight = torch.ones(4, device=device)
dist.all_reduce(weight)
dist.destroy_process_group()
