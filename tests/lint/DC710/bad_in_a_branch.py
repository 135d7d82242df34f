"""The return value is used behind the branch, behind the loop."""
import torch.distributed as dist


def mean(loss):
    total = loss
    if dist.get_world_size() > 1:
        total = dist.all_reduce(loss)  # expect: DC710
    return total / dist.get_world_size()


def last(losses):
    total = None
    for loss in losses:
        total = dist.all_reduce(loss)  # expect: DC710
    return total.item()
