import torch.distributed as dist


def total(x):
    dist.all_reduce(x, op=dist.reduce_op.SUM)  # expect: DC760
    return x


def coalesced(parts):
    dist.all_reduce_coalesced(parts)  # expect: DC760
    return parts
