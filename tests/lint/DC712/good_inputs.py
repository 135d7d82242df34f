"""One tensor many times is fine where it is only read."""
import torch
import torch.distributed as dist


def same_for_all(x, rank):
    mine = torch.empty_like(x)
    dist.scatter(mine, [x] * dist.get_world_size() if rank == 0 else None, src=0)
    total = torch.empty_like(x)
    dist.reduce_scatter(total, [x] * dist.get_world_size())
    return mine, total


def exchange(x):
    world = dist.get_world_size()
    out = [torch.empty_like(x) for _ in range(world)]
    dist.all_to_all(out, [x] * world)
    return out
