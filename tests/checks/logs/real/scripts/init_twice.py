"""A library that it calls makes the default group once more."""

from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
