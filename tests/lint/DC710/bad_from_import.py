from torch.distributed import ReduceOp, broadcast, reduce


def first_loss(loss):
    total = reduce(loss, dst=0, op=ReduceOp.SUM)  # expect: DC710
    return total * 0.5


def share(weights):
    weights = broadcast(weights, src=0)  # expect: DC710
    return weights
