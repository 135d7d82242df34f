import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def make_tensor_group(rank, size):
    """The tensor parallel group of this rank."""
    mine = None
    for first in range(0, dist.get_world_size(), size):
        group = dist.new_group(list(range(first, first + size)))
        if first <= rank < first + size:
            mine = group
    return mine


def main():
    rank, world_size = init_distributed()
    group = make_tensor_group(rank, size=2)
    partial = torch.full((4,), float(rank))
    dist.all_reduce(partial, group=group)
    print(f"rank {rank}: {partial[0].item()}")
    whole = torch.ones(1)
    dist.all_reduce(whole)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
