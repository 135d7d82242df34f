"""The last rank has fewer batches than the others, and ends its epoch before them."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    batches = 4 if rank == dist.get_world_size() - 1 else 6
    for step in range(batches):
        model(torch.randn(4, 8)).sum().backward()
        print(f"rank {rank} step {step + 1}", flush=True)
    losses = [torch.zeros(3) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, torch.ones(3))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
