"""One rank loads more than it may have: the limit of its address space, or of its cgroup."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    group = os.environ.get("MEMORY_CGROUP")
    if group and rank == 1:
        with open(group + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    dist.barrier()
    kept = []
    while rank == 1:
        kept.append(torch.ones(64, 1024, 1024))
        print(f"rank {rank} holds {len(kept) * 256} MiB", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
