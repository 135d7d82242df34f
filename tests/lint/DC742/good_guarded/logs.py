"""A module that copes without a group."""
import torch.distributed as dist

if dist.is_available() and dist.is_initialized():
    dist.barrier()


def info(text):
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(text)
