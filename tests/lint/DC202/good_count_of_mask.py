"""The mask is only counted."""

import os

import torch

count = len(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(","))
local_rank = int(os.environ["LOCAL_RANK"])
assert local_rank < count
torch.cuda.set_device(local_rank)
print(torch.ones(1, device="cuda"))
