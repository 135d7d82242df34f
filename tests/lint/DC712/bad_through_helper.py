import torch
import torch.distributed as dist


def buffers(x, n):
    return [torch.zeros_like(x)] * n  # expect: DC712


def everyone(x):
    out = buffers(x, dist.get_world_size())
    dist.all_gather(out, x)
    return torch.cat(out)
