"""Not asynchronous, or not known to be: the caller decides."""
import torch.distributed as dist


def average(gradient, group=None, overlapped=False):
    dist.all_reduce(gradient, group=group, async_op=overlapped)
    dist.all_reduce(gradient, group=group, async_op=False)
    dist.broadcast(gradient, 0, group, False)


def on_purpose(gradient):
    _ = dist.all_reduce(gradient, async_op=True)


def ready(gradient):
    work = dist.all_reduce(gradient, async_op=True)
    if not work.is_completed():
        work.wait()
    (other := dist.all_reduce(gradient, async_op=True)).wait()
    return work, other
