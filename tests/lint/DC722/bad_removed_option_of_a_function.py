"""A function of the project returns the options, or a constant: all ranks have the same."""

import argparse
import os
import shutil

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    return parser.parse_args()


def last_file():
    return "last.pt"


def main():
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(2, 2))
    args = options()
    shutil.rmtree(args.out)  # expect: DC722
    os.remove(last_file())  # expect: DC722
    print(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
