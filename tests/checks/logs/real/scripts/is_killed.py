"""One rank is killed as the kernel kills what takes too much memory."""

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(3):
        dist.all_reduce(torch.ones(4))
        if rank == 1 and step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
