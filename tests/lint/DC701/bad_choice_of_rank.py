"""One of two ranks, by a switch that can't be seen: no branch is proven."""

import torch
import torch.distributed as dist


def collect(total: torch.Tensor, by_last: bool) -> None:
    chosen = dist.get_rank() == dist.get_world_size() - 1 if by_last else dist.get_rank() == 0
    if chosen:
        dist.all_reduce(total)  # expect: DC701=warning
