"""What is to be spawned is a lambda."""

import torch.multiprocessing as mp


def main() -> None:
    """Run it."""
    mp.spawn(lambda rank: print(rank), nprocs=2)


if __name__ == "__main__":
    main()
