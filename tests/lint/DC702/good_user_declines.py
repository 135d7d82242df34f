"""The first rank asks whether to go on; the others catch that their barrier fails."""

import os
import sys

import torch.distributed as dist


def prepare(folder):
    if os.path.exists(folder):
        if dist.get_rank() == 0:
            answer = input(f"{folder} exists. Resume? [y/N]: ")
            if answer.lower() != "y":
                sys.exit()
    dist.barrier()


def check(folder):
    if dist.get_rank() == 0:
        if not os.path.exists(folder):
            sys.exit()
    try:
        dist.barrier()
    except RuntimeError:
        sys.exit(1)


def main(folder):
    dist.init_process_group("gloo")
    prepare(folder)
    check(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main("runs")
