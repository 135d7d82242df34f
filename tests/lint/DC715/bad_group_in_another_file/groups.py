import torch.distributed as dist

SECOND_HALF = [2, 3]


def make_group():
    return dist.new_group(SECOND_HALF)
