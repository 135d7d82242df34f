"""A loader whose workers are spawned gets a function within a function."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)

    def collate(samples: list[int]) -> torch.Tensor:
        return torch.tensor(samples)

    loader = DataLoader(range(8), batch_size=4, num_workers=1, multiprocessing_context="spawn", collate_fn=collate)
    print(next(iter(loader)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
