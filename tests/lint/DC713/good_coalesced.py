"""The manager waits for all of them at its end."""
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager


def average(gradients, group):
    with dist._coalescing_manager(group=group, async_ops=True) as manager:
        for gradient in gradients:
            dist.all_reduce(gradient, group=group, async_op=True)
    manager.wait()
    with _coalescing_manager(group=group) as manager:
        for gradient in gradients:
            dist.all_reduce(gradient, group=group, async_op=True)
