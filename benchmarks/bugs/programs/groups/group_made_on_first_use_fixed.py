import functools
import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Reporter:
    @functools.cached_property
    def group(self):
        return dist.new_group(backend="gloo")

    def gather(self, values):
        parts = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(parts, values, group=self.group)
        return parts

    def describe(self):
        return f"{dist.get_world_size(self.group)} ranks"


def main():
    rank, _ = init_distributed()
    reporter = Reporter()
    header = reporter.describe()
    if rank == 0:
        print(header)
    gradient = torch.ones(2)
    dist.all_reduce(gradient)
    losses = reporter.gather(float(rank))
    print(f"rank {rank}: {losses}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
