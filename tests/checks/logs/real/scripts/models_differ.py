"""The model has as many layers as the host's configuration says, and the hosts differ."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    layers = [torch.nn.Linear(4, 4) for _ in range(1 if rank == 0 else 2)]
    DistributedDataParallel(torch.nn.Sequential(*layers))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
