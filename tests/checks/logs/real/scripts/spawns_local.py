"""What is to be spawned is a function within a function."""

import torch.multiprocessing as mp


def main() -> None:
    """Run it."""

    def work(rank: int) -> None:
        print(rank)

    mp.spawn(work, nprocs=2)


if __name__ == "__main__":
    main()
