"""One of the two uses is guarded."""

import os

import torch
import torch.distributed as dist

local_rank = int(os.environ.get("LOCAL_RANK", -1))
if local_rank != -1:
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
device = torch.device("cuda", local_rank)  # expect: DC215
print(torch.ones(1, device=device))
if local_rank != -1:
    dist.destroy_process_group()
