import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Prefetcher:
    """Receives the next block while the current one is used."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.slots = [torch.zeros(4), torch.zeros(4)]
        self.current = 0
        self.request = dist.irecv(self.slots[0], src=0)
        self.blocks -= 1

    def next(self):
        ready = self.slots[self.current]
        self.current = 1 - self.current
        if self.blocks:
            self.request.wait()
            self.request = dist.irecv(self.slots[self.current], src=0)
            self.blocks -= 1
        return ready


def main():
    rank, _ = init_distributed()
    dist.barrier()
    if rank == 0:
        for block in range(4):
            time.sleep(0.2)
            dist.send(torch.full((4,), float(block)), dst=1)
    else:
        prefetcher = Prefetcher(4)
        seen = sum(prefetcher.next()[0].item() for _ in range(4))
        print(f"steps {seen}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
