import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def shift(block, rank, world_size):
    right = (rank + 1) % world_size
    incoming = torch.empty_like(block)
    request = dist.isend(block, dst=right)
    dist.recv(incoming, src=right)
    request.wait()
    return incoming


def main():
    rank, world_size = init_distributed()
    keys = torch.arange(4, dtype=torch.float) + 10 * rank
    for step in range(world_size - 1):
        keys = shift(keys, rank, world_size)
    print(f"rank {rank}: {keys.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
