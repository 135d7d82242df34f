import torch
import torch.distributed as dist


def collect(scores, rank, world_size):
    parts = world_size * [torch.empty(scores.shape, device=scores.device)] if rank == 0 else None  # expect: DC712
    dist.gather(scores, gather_list=parts, dst=0)
    return torch.cat(parts) if rank == 0 else None
