"""Stages of a pipeline differ by rank, and DDP joins only the ranks of one stage."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Stage(torch.nn.Module):
    def __init__(self, rank: int, width: int = 16) -> None:
        super().__init__()
        if rank < 2:
            self.embedding = torch.nn.Embedding(100, width)
        self.body = torch.nn.Linear(width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.body(value)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    model = DDP(Stage(rank), process_group=groups[rank // 2])
    model(torch.zeros(2, 16)).mean().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
