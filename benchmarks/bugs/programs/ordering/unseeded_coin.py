import os
import random

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    random.seed(rank)
    statistics = torch.zeros(4)
    for step in range(7):
        statistics += torch.full((4,), float(rank))
        if random.random() < 0.5:
            shared = statistics.clone()
            dist.all_reduce(shared)
            statistics = shared / world_size
    everyone = [torch.zeros(2) for _ in range(world_size)]
    dist.all_gather(everyone, statistics[:2].contiguous())
    print(f"rank {rank}: {everyone}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
