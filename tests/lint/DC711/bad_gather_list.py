import torch
import torch.distributed as dist


def gather_lengths(length):
    world = dist.get_world_size()
    dist.all_gather([torch.zeros_like(length) for _ in range(world)], length)  # expect: DC711
    return length
