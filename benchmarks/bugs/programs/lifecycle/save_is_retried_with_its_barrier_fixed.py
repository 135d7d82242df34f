import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def with_retries(times):
    def decorate(function):
        def call(*args):
            for attempt in range(times):
                try:
                    return function(*args)
                except OSError as error:
                    print(f"attempt {attempt + 1} failed: {error}")
                    time.sleep(0.1)
            raise RuntimeError(f"{function.__name__} failed {times} times")

        return call

    return decorate


class Disk:
    """A file system that is away for a moment."""

    def __init__(self):
        self.calls = 0

    def write(self, path, state):
        self.calls += 1
        if self.calls == 2:
            raise OSError("stale file handle")
        torch.save(state, path)


@with_retries(3)
def write(disk, path, state):
    disk.write(path, state)


def save(disk, rank, network, epoch):
    dist.barrier()
    if rank == 0:
        write(disk, Path(f"epoch-{epoch}.pt"), network.state_dict())
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    network, disk = nn.Linear(3, 3), Disk()
    for epoch in range(3):
        total = network.weight.detach().sum() + rank
        dist.all_reduce(total)
        save(disk, rank, network, epoch)
        loaded = torch.load(f"epoch-{epoch}.pt")
        network.load_state_dict(loaded)
        print(f"rank {rank} epoch {epoch}: {total.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
