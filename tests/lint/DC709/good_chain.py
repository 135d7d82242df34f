"""The first rank receives nothing, and the last one sends nothing."""

import torch
import torch.distributed as dist


def forward(block: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(block, src=rank - 1)
    if rank < size - 1:
        dist.send(block, dst=rank + 1)
    return block


def backward(block: torch.Tensor, is_last_stage: bool) -> None:
    if not is_last_stage:
        dist.recv(block, src=dist.get_rank() + 1)
    if dist.get_rank() > 0:
        dist.send(block, dst=dist.get_rank() - 1)


def to_the_right(block: torch.Tensor) -> None:
    rank = dist.get_rank()
    if rank > 0:
        dist.recv(block, rank - 1)
    if rank == dist.get_world_size() - 1:
        return
    dist.send(block, rank + 1)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    forward(torch.ones(4))
    to_the_right(torch.ones(4))
    backward(torch.ones(4), dist.get_rank() == dist.get_world_size() - 1)
    dist.destroy_process_group()
