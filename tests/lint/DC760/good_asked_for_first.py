import torch
import torch.distributed as dist

if hasattr(dist, "all_gather_into_tensor"):
    gather_into = dist.all_gather_into_tensor
else:
    gather_into = dist._all_gather_base

try:
    from torch.distributed.tensor import DTensor
except ImportError:
    from torch.distributed._tensor import DTensor


def gather(x):
    out = torch.empty(dist.get_world_size() * x.numel(), device=x.device, dtype=x.dtype)
    gather_into(out, x.reshape(-1))
    return out, DTensor


def reduce_on_old_torch(tensors):
    if "all_reduce_multigpu" in dir(dist):
        dist.all_reduce_multigpu(tensors)
