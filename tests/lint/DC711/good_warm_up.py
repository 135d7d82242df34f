"""Rounds on copies of one tensor: to warm up, and to measure."""
import time

import torch
import torch.distributed as dist


def bandwidth(tensor, rounds):
    for _ in range(3):
        dist.all_reduce(tensor.clone())
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(tensor.clone(), op=dist.ReduceOp.SUM)
    torch.cuda.synchronize()
    return tensor.numel() * rounds / (time.perf_counter() - start)


def once(size):
    tensor = torch.randn(size, device="cuda")
    dist.all_reduce(tensor.clone())
    return tensor.numel()
