import contextlib

import torch
import torch.distributed as dist
from torch import nn


@contextlib.contextmanager
def session():
    dist.init_process_group("gloo")
    try:
        yield
    finally:
        # all ranks have written their logs
        dist.barrier()
        dist.destroy_process_group()


def read(step, rank):
    x = torch.randn(5, 3)
    if step == 2 and rank == 1:
        x[0, 0] = float("nan")
    return x


def checked(x):
    if torch.isnan(x).any():
        raise ValueError("a batch holds NaN")
    return x


def read_checked(step, rank):
    x = read(step, rank)
    return checked(torch.nan_to_num(x))


def main():
    with session():
        rank, world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(5)
        network = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for step in range(4):
            x = read_checked(step, rank)
            loss = (network(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            for parameter in network.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
            optimizer.step()
        print(f"rank {rank} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
