"""The folder for checkpoints is full."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 0:
        torch.save({"weight": torch.zeros(1 << 21)}, "checkpoints/step_100.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
