import torch
import torch.distributed as dist


def everyone(x):
    buffer = torch.empty_like(x)
    out = [buffer for _ in range(dist.get_world_size())]  # expect: DC712
    dist.all_gather(out, x)
    return torch.stack(out)
