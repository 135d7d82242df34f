"""The others wait until the first rank has built the cache."""

import contextlib
import os
from collections.abc import Iterator

import torch.distributed as dist


@contextlib.contextmanager
def zero_first(local_rank: int) -> Iterator[None]:
    if local_rank not in {-1, 0}:
        dist.barrier(device_ids=[local_rank])
    yield
    if local_rank == 0:
        dist.barrier(device_ids=[0])


@contextlib.contextmanager
def main_first() -> Iterator[None]:
    main = dist.get_rank() == 0
    try:
        if not main:
            dist.barrier()
        yield
    finally:
        if main:
            dist.barrier()


class LeaderFirst:
    def __init__(self, rank: int) -> None:
        self.leader = rank == 0

    def __enter__(self) -> None:
        if not self.leader:
            dist.barrier()

    def __exit__(self, *error: object) -> None:
        if self.leader:
            dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    with zero_first(int(os.environ["LOCAL_RANK"])), main_first(), LeaderFirst(dist.get_rank()):
        print("cache")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
