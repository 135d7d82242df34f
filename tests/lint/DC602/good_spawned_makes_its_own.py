import os

import torch.distributed as dist
import torch.multiprocessing as mp


class Settings:
    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.group = None

    def connect(self) -> None:
        self.group = dist.new_group(list(range(self.world_size)))


def worker(rank: int, settings: Settings) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=settings.world_size)
    settings.connect()
    dist.barrier(group=settings.group)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    mp.spawn(worker, args=(Settings(2),), nprocs=2)
