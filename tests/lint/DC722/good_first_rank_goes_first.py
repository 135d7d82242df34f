"""In a generator of the project one rank goes first: the others find the folder. Its rank is a default argument."""

import os
from contextlib import contextmanager

import torch.distributed as dist


def local_rank():
    return int(os.environ.get("LOCAL_RANK", "-1"))


def meet():
    if dist.is_initialized():
        dist.barrier()


@contextmanager
def in_order(number=local_rank()):
    if number not in [-1, 0]:
        meet()
    yield
    if number == 0:
        meet()


def main(folder):
    dist.init_process_group("gloo")
    with in_order():
        if not os.path.exists(folder):
            os.makedirs(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main("cache")
