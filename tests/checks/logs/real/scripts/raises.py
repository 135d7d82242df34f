"""One rank meets a sample that it cannot read; the others lose their peer."""

from datetime import timedelta

import torch
import torch.distributed as dist


def load(step: int, rank: int) -> torch.Tensor:
    """A batch; that of step 3 is broken on rank 2."""
    if step == 3 and rank == 2:
        raise ValueError(f"sample {step * 4 + rank} has 7 columns, 8 were expected")
    return torch.randn(4, 8)


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for step in range(5):
        dist.all_reduce(load(step, rank))
        if rank == 0:
            print(f"step {step + 1}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
