"""Data-parallel leaders talk among themselves: the group says so, wherever it comes from."""

import torch
import torch.distributed as dist


class Parallel:
    def __init__(self, model_size: int) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        self.model_rank = rank % model_size
        for first in range(model_size):
            group = dist.new_group(range(first, size, model_size))
            if first == self.model_rank:
                self.data_group = group

    def average(self, value: torch.Tensor) -> None:
        if self.model_rank == 0:
            dist.all_reduce(value, group=self.data_group)


def leaders_only(value: torch.Tensor, rank: int, **options: object) -> None:
    if rank == 0:
        dist.all_reduce(value, **options)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    parallel = Parallel(2)
    parallel.average(torch.ones(1))
    leaders_only(torch.ones(1), parallel.model_rank, group=parallel.data_group)
    dist.destroy_process_group()
