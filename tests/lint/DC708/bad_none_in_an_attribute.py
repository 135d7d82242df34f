"""An attribute is None on all ranks but the first: one method uses it on all of them, another makes a path from it."""

import time
from pathlib import Path

import torch
import torch.distributed as dist


def is_main():
    return dist.get_rank() == 0


class Run:
    def __init__(self, root):
        self.folder = None
        if is_main():
            self.folder = Path(root) / time.strftime("%H%M%S")
        dist.barrier()

    def log(self, text):
        if is_main():
            (self.folder / "log.txt").write_text(text)

    def save_random_state(self):
        torch.save(torch.get_rng_state(), self.folder / f"{dist.get_rank()}.pt")  # expect: DC708=warning


def main():
    dist.init_process_group("gloo")
    run = Run("runs")
    run.log("started")
    run.save_random_state()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
