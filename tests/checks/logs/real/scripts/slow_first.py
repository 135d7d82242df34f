"""Rank 0 prepares the data while the others wait at the barrier, longer than the group's limit."""

import time
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=3))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 0:
        print("tokenizing the dataset ...", flush=True)
        time.sleep(9)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
