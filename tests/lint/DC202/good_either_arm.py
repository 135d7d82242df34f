"""Masked by the launcher or not: each arm takes the index that is right there."""

import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
if torch.cuda.device_count() == 1:
    torch.cuda.set_device(0)
else:
    torch.cuda.set_device(local_rank)
print(torch.ones(1, device="cuda"))
