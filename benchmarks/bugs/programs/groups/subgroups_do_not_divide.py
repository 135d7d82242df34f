import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    size = 2
    group, groups = dist.new_subgroups(group_size=size)
    norm = torch.tensor([1.0 + rank])
    dist.all_reduce(norm, group=group)
    print(f"rank {rank} of {len(groups)} groups: {norm.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
