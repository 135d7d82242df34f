import torch
from torch.distributed import broadcast_multigpu  # expect: DC760=error
from torch.distributed import _all_gather_base as gather_into  # expect: DC760
from torch.distributed import get_world_size


def gather(x):
    out = torch.empty(get_world_size() * x.numel(), device=x.device, dtype=x.dtype)
    gather_into(out, x.reshape(-1))
    broadcast_multigpu([out], 0)
    return out
