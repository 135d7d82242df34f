import os

import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.tensorboard import SummaryWriter


class Settings:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.writer = SummaryWriter(folder)


def worker(rank: int, world_size: int, extra: object) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    dist.barrier()
    print(rank, extra)
    dist.destroy_process_group()


def main() -> None:
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    settings = Settings("runs/1")
    mp.spawn(worker, (2, settings), 2)  # expect: DC605


if __name__ == "__main__":
    main()
