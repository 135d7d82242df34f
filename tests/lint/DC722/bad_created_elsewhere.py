"""Another folder exists by then, or this one only in a branch."""

import argparse
import os

import torch.distributed as dist


def keep(folder):
    if not os.path.exists(folder):
        os.makedirs(folder)  # expect: DC722


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    parser.add_argument("--logs", default="logs")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    os.makedirs(args.logs, exist_ok=True)
    if args.logs != args.output:
        os.makedirs(args.output, exist_ok=True)
    keep(args.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
