"""The script reads the number of its node: it is meant for several hosts, where the two ranks differ."""

import os

import torch
import torch.distributed as dist

print("node", os.environ.get("GROUP_RANK", "0"))
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())  # expect: DC201
