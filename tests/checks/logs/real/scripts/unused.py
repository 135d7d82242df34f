"""A layer of the model takes no part in the loss."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(torch.nn.Module):
    """The second head is for later."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)
        self.other = torch.nn.Linear(4, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The first head's answer."""
        return self.head(self.body(batch))


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    model = DistributedDataParallel(TwoHeads())
    for step in range(3):
        model(torch.randn(2, 4)).sum().backward()
        print(f"step {step + 1}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
