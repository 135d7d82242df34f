import os
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Tracker:
    def __init__(self, rank):
        self.lines = []
        self.rank = rank

    def log(self, text):
        self.lines.append(text)

    def close(self):
        dist.barrier()
        Path("log.txt").write_text("\n".join(self.lines))
        print("log written")


def main():
    rank, _ = init_distributed()
    tracker = Tracker(rank)
    loss = torch.tensor([float(rank)])
    dist.all_reduce(loss)
    tracker.log(f"loss {loss.item()}")
    tracker.close()


if __name__ == "__main__":
    main()
