import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def synchronize(self):
        both = torch.tensor([self.total, float(self.count)])
        dist.barrier()
        dist.all_reduce(both)
        self.total, self.count = both[0].item(), int(both[1])

    def __str__(self):
        self.synchronize()
        return f"{self.total / max(self.count, 1):.4f}"


def main():
    rank, _ = init_distributed()
    meter = SmoothedValue()
    for step in range(5):
        meter.update(step * (rank + 1))
    if rank == 0:
        print("loss", str(meter))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
