"""The vocabulary has one word more on one rank."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    DistributedDataParallel(torch.nn.Linear(4, 5 if rank == 1 else 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
