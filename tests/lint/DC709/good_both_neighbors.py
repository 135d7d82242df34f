"""Edges go to both neighbors and come from both; a pair of ranks swaps."""

import torch
import torch.distributed as dist


def edges(left: torch.Tensor, right: torch.Tensor) -> list[torch.Tensor]:
    rank, size = dist.get_rank(), dist.get_world_size()
    before, after = torch.empty_like(left), torch.empty_like(right)
    operations = [
        dist.P2POp(dist.isend, right, (rank + 1) % size),
        dist.P2POp(dist.irecv, after, (rank + 1) % size),
        dist.P2POp(dist.isend, left, (rank - 1) % size),
        dist.P2POp(dist.irecv, before, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return [before, after]


def swap(value: torch.Tensor) -> torch.Tensor:
    other = dist.get_rank() ^ 1
    incoming = torch.empty_like(value)
    work = dist.isend(value, dst=other)
    dist.recv(incoming, src=other)
    work.wait()
    return incoming


if __name__ == "__main__":
    dist.init_process_group("gloo")
    edges(torch.ones(4), torch.ones(4))
    swap(torch.ones(4))
    dist.destroy_process_group()
