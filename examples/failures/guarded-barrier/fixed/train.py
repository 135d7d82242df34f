"""Rank 0 writes a checkpoint, and all ranks wait for it."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=5))
weights = torch.ones(8)
dist.all_reduce(weights)
if dist.get_rank() == 0:
    torch.save(weights, "weights.pt")
dist.barrier()
if dist.get_rank() == 0:
    print(f"saved {weights.sum():g}")
dist.destroy_process_group()
