"""Rank 0 alone decides, and tells nobody."""

import torch
import torch.distributed as dist


def train(epochs: int) -> None:
    rank = dist.get_rank()
    stop = False
    for epoch in range(epochs):
        loss = torch.rand(1)
        dist.all_reduce(loss)
        if rank == 0:
            stop = epoch > 3 and loss.item() < 0.1
        if stop:
            break  # expect: DC707


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(10)
    dist.destroy_process_group()
