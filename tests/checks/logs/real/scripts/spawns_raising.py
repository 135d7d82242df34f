"""One of the spawned processes raises."""

import os

import torch
import torch.multiprocessing as mp


def work(rank: int) -> None:
    """One rank."""
    if rank == 1:
        weights = torch.ones(3, 4)
        print(weights @ torch.ones(5))


def main() -> None:
    """Run it."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["OWN_PORT"], WORLD_SIZE="2")
    mp.spawn(work, nprocs=2)


if __name__ == "__main__":
    main()
