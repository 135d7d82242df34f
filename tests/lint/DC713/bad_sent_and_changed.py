import torch
import torch.distributed as dist

dist.init_process_group("nccl")


def push(x, rank, world):
    dist.isend(x, (rank + 1) % world)  # expect: DC713
    x.mul_(2)
    return x


def reuse(x, rank, world):
    for step in range(world):
        dist.isend(x, (rank + 1) % world)  # expect: DC713
        dist.recv(x, (rank - 1) % world)
    return x
