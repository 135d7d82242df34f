"""The local rank modulo the count: more ranks than GPUs on one host, on purpose."""

import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank % torch.cuda.device_count())
print(torch.ones(1, device="cuda"))
