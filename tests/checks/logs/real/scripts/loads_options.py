"""The checkpoint holds argparse's options, and torch loads only weights."""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    if rank == 0:
        torch.save({"model": {}, "args": argparse.Namespace(lr=0.1)}, "last.pt")
    dist.barrier()
    torch.load("last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
