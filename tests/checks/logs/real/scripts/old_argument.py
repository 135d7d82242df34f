"""It was written for the launcher before torch 2.0, which gave --local_rank."""

import argparse

import torch.distributed as dist


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int)
    parser.add_argument("--epochs", type=int, default=1)
    parser.parse_args()
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
