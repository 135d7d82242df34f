import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def push(x, weight, rank, world):
    dist.isend(x, (rank + 1) % world)  # expect: DC713
    return torch.matmul(x, weight)
