"""The folder for logs is full."""

from datetime import timedelta
from pathlib import Path

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 1:
        with Path("checkpoints/metrics.csv").open("w") as file:
            for step in range(1_000_000):
                file.write(f"{step},0.123456789\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
