"""The address space is limited, as by ulimit -v, and the checkpoint does not fit."""

import resource
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 1:
        most = 6 << 30
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        weights = [torch.empty(1 << 30, dtype=torch.float64)]
        print(len(weights))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
