"""The process that starts the ranks makes another folder, makes it after they start, or only with an option."""

import argparse
import os

import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    if not os.path.exists(args.images):
        os.makedirs(args.images)  # expect: DC722
    if not os.path.exists(args.logs):
        os.makedirs(args.logs)  # expect: DC722
    if not os.path.exists(args.tables):
        os.makedirs(args.tables)  # expect: DC722
    if not os.path.exists("cache"):
        os.makedirs("cache")  # expect: DC722
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", default="images")
    parser.add_argument("--logs", default="logs")
    parser.add_argument("--tables", default="tables")
    parser.add_argument("--prepare", action="store_true")
    args = parser.parse_args()
    os.makedirs("others", exist_ok=True)
    if args.prepare:
        os.makedirs(args.tables, exist_ok=True)
    mp.spawn(worker, args=(args,), nprocs=2)
    os.makedirs(args.logs, exist_ok=True)


if __name__ == "__main__":
    main()
