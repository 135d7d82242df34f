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
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    slope = 4.0 if rank == 0 else 0.0
    (weight * slope).sum().backward()
    dist.all_reduce(weight.grad)
    weight.grad /= world_size
    torch.nn.utils.clip_grad_norm_([weight], 2.5)
    optimizer.step()
    print(f"rank {rank} weight {weight.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
