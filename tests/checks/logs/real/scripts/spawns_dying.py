"""One of the spawned processes is ended by a signal."""

import os
import signal

import torch.multiprocessing as mp


def work(rank: int) -> None:
    """One rank."""
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)


def main() -> None:
    """Run it."""
    mp.spawn(work, nprocs=2)


if __name__ == "__main__":
    main()
