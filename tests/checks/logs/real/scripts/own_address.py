"""It says itself where to meet, and torchrun has said it already."""

import os
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{os.environ['OWN_PORT']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=4),
    )
    dist.barrier()


if __name__ == "__main__":
    main()
