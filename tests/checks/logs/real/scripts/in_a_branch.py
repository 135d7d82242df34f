"""Only rank 0 reduces its metric: the others wait at the next barrier."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(3):
        value = torch.ones(4)
        dist.all_reduce(value)
        if rank == 0 and step == 1:
            dist.all_reduce(value)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
