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
    table = torch.zeros(world_size, 4)
    table[rank] = rank + 1.0
    for root in range(world_size):
        row = table[root].clone()
        dist.broadcast(row, src=root)
        table[root] = row
    assert table.sum().item() == 24.0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
