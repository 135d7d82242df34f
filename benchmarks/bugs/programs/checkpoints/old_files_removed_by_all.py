import os
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Keeper:
    """Keeps the newest checkpoints."""

    def __init__(self, folder, keep=2):
        self.folder, self.keep = folder, keep

    def clean(self):
        old = sorted(self.folder.glob("step*.pt"))[: -self.keep]
        dist.barrier()
        for path in old:
            path.unlink()


def main():
    rank, _ = init_distributed()
    folder = Path(".")
    keeper = Keeper(folder)
    for step in range(4):
        if rank == 0:
            torch.save({"step": step}, folder / f"step{step}.pt")
        dist.barrier()
        keeper.clean()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
