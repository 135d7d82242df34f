"""One rank does not come to the monitored barrier."""

import time
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 2:
        time.sleep(12)
    else:
        dist.monitored_barrier(timeout=timedelta(seconds=3))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
