"""Rank and size come back from a set-up function as a pair."""

import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")
    return dist.get_rank(), dist.get_world_size()


def main():
    rank, world_size = setup()
    torch.cuda.set_device(rank)  # expect: DC201=info
    total = torch.tensor([float(rank)], device="cuda")
    dist.all_reduce(total)
    print(total / world_size)
    dist.destroy_process_group()


main()
