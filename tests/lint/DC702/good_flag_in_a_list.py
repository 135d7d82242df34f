"""Rank 0 decides, and a list of objects carries its decision to the others."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Stopper:
    def __init__(self, several: bool) -> None:
        self.several, self.best, self.waited = several, 1e9, 0

    def decide(self, loss: float) -> bool:
        stop = False
        if not self.several or dist.get_rank() == 0:
            self.waited = 0 if loss < self.best else self.waited + 1
            self.best = min(self.best, loss)
            stop = self.waited > 3
        if self.several:
            flag = [stop]
            dist.broadcast_object_list(flag, src=0)
            stop = flag[0]
        return stop


def main(batches: list, epochs: int) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local_rank])
    stopper = Stopper(dist.get_world_size() > 1)
    for _ in range(epochs):
        loss = sum(model(batch).sum() for batch in batches)
        loss.backward()
        if stopper.decide(loss.item()):
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.rand(2, 4)], 3)
