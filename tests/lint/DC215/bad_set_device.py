"""set_device does nothing for -1: the process goes on with the first GPU, which may be meant."""

import os

import torch

local_rank = int(os.environ.get("LOCAL_RANK", -1))
torch.cuda.set_device(local_rank)  # expect: DC215=info
print(torch.ones(1, device="cuda"))
