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
    chunk = torch.empty(4)
    parts = None
    if rank == 0:
        data = torch.arange(11, dtype=torch.float)
        parts = list(data.split(4))
    dist.scatter(chunk, parts, src=0)
    print(f"rank {rank}: {chunk.tolist()}")
    total = chunk.sum()
    dist.reduce(total, dst=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
