import os

import torch
import torch.distributed as dist
from loop import Loop
from torch.nn.parallel import DistributedDataParallel


class ParallelLoop(Loop):
    def __init__(self, model, rank):
        super().__init__(model)
        self.rank = rank

    def save(self):
        if self.rank == 0:
            super().save()


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    trainer = ParallelLoop(model, int(os.environ["RANK"]))
    trainer.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
