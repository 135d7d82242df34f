import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    layer = nn.Linear(8, 8)
    for microbatch in range(2):
        if rank == 0:
            hidden = torch.randn(4, 8)
        else:
            hidden = torch.empty(4, 8)
            dist.recv(hidden, src=rank - 1)
        output = layer(hidden).detach()
        if rank + 1 < world_size:
            dist.send(output, dst=rank + 1)
    print(f"rank {rank}: {output.mean().item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
