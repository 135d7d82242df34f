"""As raises.py, with the decorator that keeps the traceback for torchrun's table."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(3):
        dist.all_reduce(torch.ones(4))
        if rank == 1 and step == 1:
            labels = {"cat": 0, "dog": 1}
            print(labels[os.environ.get("LABEL", "horse")])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
