"""It reduces a type that the back end does not know."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    dist.all_reduce(torch.ones(4).to(torch.float8_e4m3fn))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
