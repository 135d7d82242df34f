import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def synchronize(parameters, world_size):
    for parameter in parameters:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)


def main():
    rank, world_size = init_distributed()
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    x = torch.tensor([1.0, 3.0]) if rank == 0 else torch.tensor([2.0, 4.0])
    optimizer.zero_grad()
    (weight * x).mean().backward()
    synchronize([weight], world_size)
    optimizer.step()
    print(f"rank {rank} weight {weight.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
