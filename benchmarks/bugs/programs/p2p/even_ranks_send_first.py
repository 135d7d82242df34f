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
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    block, incoming = torch.full((100_000,), float(rank)), torch.empty(100_000)
    if rank % 2 == 0:
        dist.send(block, dst=right)
        dist.recv(incoming, src=left)
    else:
        dist.recv(incoming, src=left)
        dist.send(block, dst=right)
    assert incoming[0].item() == left
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
