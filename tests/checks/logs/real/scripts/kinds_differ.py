"""One rank gathers where the others reduce."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    value = torch.ones(4)
    dist.all_reduce(value)
    if rank == 1:
        dist.broadcast(value, src=0)
    else:
        dist.all_reduce(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
