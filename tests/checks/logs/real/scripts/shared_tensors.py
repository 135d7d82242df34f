"""Workers of a loader send each tensor by a descriptor of its own; the limit is low."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Columns(Dataset):
    """Samples of many small tensors."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, number: int) -> list[torch.Tensor]:
        return [torch.full((4,), float(number)) for _ in range(8)]


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    kept = []
    for batch in DataLoader(Columns(), batch_size=None, num_workers=1):
        kept.append(batch)
    print(len(kept))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
