import torch.distributed as dist


def averaged(values, count):
    dist.all_reduce(values, op=dist.reduce_op.SUM)  # expect: DC760
    return values / count
