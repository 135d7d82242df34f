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
    right = (rank + 1) % world_size
    pair = dist.new_group(sorted([rank, right]))
    values = torch.tensor([float(rank)])
    dist.all_reduce(values, group=pair)
    print(f"rank {rank}: {values.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
