"""A barrier waits for the ranks, not for the operations that were begun before it."""
import torch.distributed as dist


def average(model, optimizer):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, async_op=True)  # expect: DC713
    dist.barrier()
    optimizer.step()
