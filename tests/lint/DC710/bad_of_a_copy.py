"""The tensor has no name: only the return value can have been meant, and the result is nowhere."""
import torch.distributed as dist


def record(loss, tracker, parallel):
    if parallel:
        mean = dist.all_reduce(loss.detach().clone(), op=dist.ReduceOp.AVG)  # expect: DC710
    else:
        mean = loss.detach()
    tracker.add("loss", mean)
    return loss
