"""The context manager times its body and waits at the end: all ranks create the folder at once."""

import os
import time
from contextlib import contextmanager

import torch.distributed as dist


@contextmanager
def timed(rank):
    start = time.time()
    yield
    dist.barrier()
    if rank == 0:
        print(time.time() - start)


def main(folder):
    dist.init_process_group("gloo")
    with timed(dist.get_rank()):
        if not os.path.exists(folder):
            os.makedirs(folder)  # expect: DC722
    dist.destroy_process_group()


if __name__ == "__main__":
    main("cache")
