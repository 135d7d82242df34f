import torch.distributed as dist


def agreed(flag, group=None):
    if dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group, async_op=False) > 0:  # expect: DC710
        return True
    return False
