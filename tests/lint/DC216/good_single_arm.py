"""Distributed or not: GPU 0 belongs to the arm of one process."""

import os

import torch
import torch.distributed as dist

distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
if distributed:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
else:
    device = torch.device("cuda:0")
print(torch.ones(1, device=device))
if distributed:
    dist.destroy_process_group()
