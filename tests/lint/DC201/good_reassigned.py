"""The name is used for both; at the call it is the local one."""

import os

import torch

rank = int(os.environ["RANK"])
print(f"process {rank}")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
print(torch.ones(1, device="cuda"))
