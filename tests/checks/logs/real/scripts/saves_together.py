"""All ranks save to one path, and read it again."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(200):
        torch.save({"step": step, "weight": torch.ones(1 << 18)}, "last.pt")
        torch.load("last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
