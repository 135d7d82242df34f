"""A reduction on the rank's own GPU comes before the barrier, which takes that GPU."""

import os

import torch
import torch.distributed as dist


def main():
    nodes = os.environ["SLURM_NNODES"]
    device = torch.device("cuda", int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group("nccl")  # expect: DC206=info
    ones = torch.ones(1, device=device)
    dist.all_reduce(ones)
    dist.barrier()
    return ones, nodes


main()
