"""One download on each node is what the local rank is for."""

import os

import torch
import torch.distributed as dist
from torchvision.datasets import MNIST

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
if local_rank == 0:
    MNIST("data", download=True)
dist.barrier()
print(len(MNIST("data", download=False)))
dist.destroy_process_group()
