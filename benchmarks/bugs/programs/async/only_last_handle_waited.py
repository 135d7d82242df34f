import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def reduce_gradients(parameters):
    work = None
    for parameter in parameters:
        work = dist.all_reduce(parameter.grad, async_op=True)
    work.wait()


def main():
    rank, world_size = init_distributed()
    embedding, bias = nn.Parameter(torch.ones(8_000_000)), nn.Parameter(torch.ones(1))
    for parameter in (embedding, bias):
        parameter.grad = torch.full_like(parameter, float(rank))
    dist.barrier()
    reduce_gradients([embedding, bias])
    last = embedding.grad[-1].item()
    print(f"rank {rank} gradient {last}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
