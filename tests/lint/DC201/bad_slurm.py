"""Slurm's number of the task in the job is not its number on the node."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
world_size = int(os.environ["SLURM_NTASKS"])
torch.cuda.set_device(rank)  # expect: DC201=info
dist.init_process_group("nccl", rank=rank, world_size=world_size)
dist.barrier()
dist.destroy_process_group()
