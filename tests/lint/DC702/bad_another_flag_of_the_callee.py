"""The flag of the exit is not the one that the function tests, or one of its collectives needs no flag."""

import torch
import torch.distributed as dist


def gather(metrics: torch.Tensor, together: bool) -> torch.Tensor:
    if together:
        dist.all_reduce(metrics)
    dist.barrier()
    return metrics


def reduce_if(metrics: torch.Tensor, together: bool = False) -> torch.Tensor:
    if together:
        dist.all_reduce(metrics)
    return metrics


def evaluate(metrics: torch.Tensor, together: bool) -> torch.Tensor:
    if not together and dist.get_rank() != 0:
        return metrics
    return gather(metrics, together)  # expect: DC702=warning


def test_all(metrics: torch.Tensor, alone: bool) -> torch.Tensor:
    if alone and dist.get_rank() != 0:
        return metrics
    return reduce_if(metrics, together=True)  # expect: DC702=warning
