"""The argument of one call decides the guard, and switches it off in the other."""

import torch
import torch.distributed as dist


def load(weights: torch.Tensor, rank0: bool = False) -> torch.Tensor:
    if rank0 and dist.get_rank() != 0:
        return weights
    dist.broadcast(weights, src=0)  # expect: DC702
    return weights


def every(weights: torch.Tensor, alone: bool = False) -> torch.Tensor:
    if alone and dist.get_rank() != 0:
        return weights
    dist.broadcast(weights, src=0)
    return weights


if __name__ == "__main__":
    dist.init_process_group("gloo")
    load(torch.ones(1))
    load(torch.ones(1), rank0=True)
    every(torch.ones(1))
    every(torch.ones(1), False)
    dist.destroy_process_group()
