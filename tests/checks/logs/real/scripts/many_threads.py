"""The user may have no more processes than there are."""

import os
import resource
import threading
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 0:
        os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        prefetch = threading.Thread(target=print, args=("prefetching",))
        prefetch.start()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
