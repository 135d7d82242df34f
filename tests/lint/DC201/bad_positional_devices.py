"""device_ids is the second positional argument of the wrapper; a call of several lines is marked at the argument."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 4).cuda(), [rank])  # expect: DC201=info
other = DDP(
    torch.nn.Linear(4, 4).cuda(),
    device_ids=[rank],  # expect: DC201=info
)
print(model, other)
dist.destroy_process_group()
