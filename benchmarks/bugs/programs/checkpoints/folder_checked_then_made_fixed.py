import os
from pathlib import Path

import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Run:
    def __init__(self, folder):
        self.folder = Path(folder)

    def prepare(self):
        missing = not self.folder.exists()
        dist.barrier()
        if missing:
            self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder


def main():
    rank, _ = init_distributed()
    folder = Run("output/images").prepare()
    (folder / f"rank{rank}.txt").write_text("started")
    dist.barrier()
    print(f"rank {rank}: {len(list(folder.iterdir()))} files")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
