"""Neither test of an attribute is about the other ranks: nothing sets the first one, the second is a name."""

import argparse

import torch.distributed as dist
import torch.multiprocessing as mp


def save_settings(args):
    if not hasattr(args, "master_rank"):
        with open("settings.txt", "w") as file:  # expect: DC720
            file.write(str(args))
    if not hasattr(args, "comment"):
        with open("comment.txt", "w") as file:  # expect: DC720
            file.write("none")
    if hasattr(args, "world_size"):
        with open("sizes.txt", "w") as file:  # expect: DC720
            file.write("some")


def worker(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=args.world_size)
    args.comment = "started"
    save_settings(args)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=2)
    args = parser.parse_args()
    mp.spawn(worker, args=(args,), nprocs=args.world_size)


if __name__ == "__main__":
    main()
