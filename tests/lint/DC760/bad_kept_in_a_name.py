import torch.distributed as dist

SUM = dist.reduce_op.SUM  # expect: DC760


def total(x):
    dist.all_reduce(x, op=SUM)
    return x
