"""Meant as a pair around the work of rank 0, but both halves test the same."""

import contextlib

import torch.distributed as dist


@contextlib.contextmanager
def first_rank_first(rank: int):
    if rank != 0:
        dist.barrier()  # expect: DC701
    yield
    if rank != 0:
        dist.barrier()  # expect: DC701


def main() -> None:
    dist.init_process_group("gloo")
    with first_rank_first(dist.get_rank()):
        print("building the cache")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
