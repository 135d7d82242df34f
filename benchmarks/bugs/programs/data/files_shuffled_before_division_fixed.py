import os
import random

import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def my_files(rank, world_size):
    files = [f"shard-{i:03}.tar" for i in range(12)]
    random.Random(2024).shuffle(files)
    return files[rank::world_size]


def main():
    rank, world_size = init_distributed()
    random.seed(10 * rank)
    mine = my_files(rank, world_size)
    everyone = [None] * world_size
    dist.all_gather_object(everyone, mine)
    distinct = {name for part in everyone for name in part}
    if rank == 0:
        print(f"files read {len(distinct)} of 12")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
