"""A context manager lets rank 0 go first: each rank passes one barrier, before or after the block."""

from contextlib import contextmanager

import torch.distributed as dist


@contextmanager
def main_rank_first():
    if dist.get_rank() != 0:
        dist.barrier()
    yield
    if dist.get_rank() == 0:
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    with main_rank_first():
        print("prepared")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
