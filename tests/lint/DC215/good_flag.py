"""The comparison has a name of its own."""

import os

import torch

local_rank = int(os.environ.get("LOCAL_RANK", -1))
distributed = local_rank >= 0
if distributed:
    torch.cuda.set_device(local_rank)
device = f"cuda:{local_rank}" if distributed else "cpu"
print(torch.ones(1, device=device))
