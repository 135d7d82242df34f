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
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.full((4,), float(rank))
    total = block.clone()
    for _ in range(world_size - 1):
        incoming = torch.empty(4)
        request = dist.isend(block, dst=right)
        dist.recv(incoming, src=left)
        request.wait()
        total += incoming
        block = incoming
    print(f"rank {rank}: {total[0].item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
