"""Two ranks do not come to the monitored barrier, and it waits for all."""

import time
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank in (1, 3):
        time.sleep(14)
    else:
        dist.monitored_barrier(timeout=timedelta(seconds=3), wait_all_ranks=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
