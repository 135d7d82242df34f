import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
MICROBATCHES = 3


def first_stage():
    layer = nn.Linear(4, 4)
    for _ in range(MICROBATCHES):
        hidden = layer(torch.randn(2, 4))
        dist.send(hidden.detach(), dst=1)
        gradient = torch.empty(2, 4)
        dist.recv(gradient, src=1)
        hidden.backward(gradient)


def last_stage():
    layer = nn.Linear(4, 1)
    pending = []
    for _ in range(MICROBATCHES):
        hidden = torch.empty(2, 4)
        dist.recv(hidden, src=0)
        hidden.requires_grad_()
        layer(hidden).sum().backward()
        dist.send(hidden.grad, dst=0)


def main():
    rank, _ = init_distributed()
    if rank == 0:
        first_stage()
    else:
        last_stage()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
