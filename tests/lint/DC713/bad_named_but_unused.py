from torch.distributed import ReduceOp, all_reduce


def mean_loss(loss, world):
    work = all_reduce(loss, op=ReduceOp.SUM, async_op=True)  # expect: DC713
    return loss / world
