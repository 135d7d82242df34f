"""A sample in a worker of the loader cannot be read."""

from datetime import timedelta

import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    """Each sample is a number of its word."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> int:
        if number == 5 and dist.get_rank() == 1:
            return {"the": 0, "a": 1}["an"]
        return number


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for batch in DataLoader(Words(), batch_size=2, num_workers=1 if rank == 1 else 0):
        print(batch.shape, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
