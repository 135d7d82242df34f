"""The other ranks of each host wait for its file: one a host is meant, as on disks of its own."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
nodes = os.environ["SLURM_NNODES"]


def features(path, make):
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank != 0:
        dist.barrier()
    if not os.path.exists(path) and local_rank == 0:
        torch.save(make(), path)  # expect: DC217=info
    if local_rank == 0:
        dist.barrier()
    return torch.load(path, map_location="cpu")
