"""A backward pass of DDP on the rank's own GPU comes before the barrier, which takes that GPU."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    nodes = os.environ["SLURM_NNODES"]
    device = torch.device("cuda", int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group("nccl")  # expect: DC206=info
    ones = torch.ones(1, device=device)
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    model(ones).sum().backward()
    dist.barrier()
    return ones, nodes


main()
