"""The helper is given no model: it uses the one of the module."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.BatchNorm1d(2))


def evaluate(batch: torch.Tensor) -> float:
    return float(model(batch))  # expect: DC704


if dist.get_rank() == 0:
    print(evaluate(torch.ones(2)))
dist.destroy_process_group()
