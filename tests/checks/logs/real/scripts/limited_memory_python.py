"""The address space is limited, and Python itself gets no more."""

import resource
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 1:
        most = 6 << 30
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        cache = bytearray(8 << 30)
        print(len(cache))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
