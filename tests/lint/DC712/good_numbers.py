"""Lists of numbers and shapes."""
import torch
import torch.distributed as dist


def exchange(x, each):
    world = dist.get_world_size()
    splits = [each] * world
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, splits, splits)
    weights = [1.0] * world
    shapes = [(each, 4)] * world
    parts = [torch.empty(shape, device=x.device) for shape in shapes]
    dist.all_gather(parts, x)
    return sum(weight * part for weight, part in zip(weights, parts, strict=True))
