"""A checkpoint in the format before torch 1.6, cut off."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 0:
        torch.save({"weight": torch.ones(4096)}, "whole.pt", _use_new_zipfile_serialization=False)
        data = Path("whole.pt").read_bytes()
        Path("last.pt").write_bytes(data[:-400])
    dist.barrier()
    torch.load("last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
