"""The list is reported where it is made, once, whatever stands before it and however often it is filled."""

import torch
import torch.distributed as dist

sizes = {}


def gather_twice(x):
    sizes["x"] = x.numel()
    if not sizes["x"]:
        return
    parts = [torch.zeros_like(x)] * dist.get_world_size()  # expect: DC712
    dist.all_gather(parts, x)
    dist.all_gather(parts, x + 1)
    print(parts)


def gather_into(x, parts=[torch.zeros(2)] * 4):
    dist.all_gather(parts, x)  # expect: DC712
    print(parts)


gather_into(torch.ones(2))
