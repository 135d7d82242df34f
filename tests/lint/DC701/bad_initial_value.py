"""The value that stands until the object knows its rank is no other value of it."""

import torch
import torch.distributed as dist


class Trainer:
    rank = None
    is_main = True

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.leader = False
        if self.rank == 0:
            self.leader = True

    def end_epoch(self, metric: torch.Tensor) -> None:
        if self.rank == 0:
            dist.all_reduce(metric)  # expect: DC701

    def end(self, metric: torch.Tensor) -> None:
        if self.leader:
            dist.all_reduce(metric)  # expect: DC701


if __name__ == "__main__":
    dist.init_process_group("gloo")
    trainer = Trainer()
    trainer.end_epoch(torch.ones(1))
    trainer.end(torch.ones(1))
    dist.destroy_process_group()
