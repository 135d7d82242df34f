"""Workers of a loader hand over batches in /dev/shm, which is too small for them."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Samples of 3 MB."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.full((3, 512, 512), float(number))


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    for number, batch in enumerate(DataLoader(Images(), batch_size=8, num_workers=1)):
        dist.all_reduce(batch.mean())
        print(f"step {number}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
