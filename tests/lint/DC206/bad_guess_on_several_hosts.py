"""Tensors are on the GPU of the local rank, but the barrier takes the global rank modulo the GPUs of the host."""

import os

import torch
import torch.distributed as dist


def main():
    nodes = os.environ["SLURM_NNODES"]
    device = torch.device("cuda", int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group("nccl")  # expect: DC206
    dist.barrier()
    return torch.ones(1, device=device), nodes


main()
