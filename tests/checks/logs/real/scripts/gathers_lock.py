"""An object that is gathered holds a lock."""

import threading
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    mine = {"rank": rank, "lock": threading.Lock()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
