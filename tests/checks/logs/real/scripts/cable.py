"""A training whose collectives may take three seconds."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=3))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(600):
        dist.all_reduce(torch.ones(4))
        if rank == 0:
            print(f"step {step + 1}", flush=True)
        time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
