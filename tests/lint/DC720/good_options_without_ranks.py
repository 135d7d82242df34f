"""The options have the attribute before a worker starts, so that the arm without a test of the rank never runs."""

import argparse

import torch.distributed as dist
import torch.multiprocessing as mp


def save_settings(args):
    if hasattr(args, "distributed"):
        if not args.distributed or args.rank == 0:
            with open("settings.txt", "w") as file:
                file.write(str(args))
    else:
        with open("settings.txt", "w") as file:
            file.write(str(args))
    if not hasattr(args, "distributed"):
        with open("more.txt", "w") as file:
            file.write(str(args))


def worker(rank, args):
    args.rank = rank
    dist.init_process_group("gloo", rank=rank, world_size=args.world_size)
    save_settings(args)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=2)
    args = parser.parse_args()
    args.distributed = args.world_size > 1
    mp.spawn(worker, args=(args,), nprocs=args.world_size)


if __name__ == "__main__":
    main()
