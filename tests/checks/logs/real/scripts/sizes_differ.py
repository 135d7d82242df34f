"""Ranks reduce tensors of different sizes, as a last batch that is smaller does."""

from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(3):
        loss = torch.ones(4 if step < 2 or rank == 0 else 6)
        dist.all_reduce(loss)
        if rank == 0:
            print(f"step {step} loss {loss.sum().item()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
