import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def spawned(index, args):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=args.url, rank=index, world_size=args.gpus)
    dist.destroy_process_group()


def launched():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--launcher", choices=["torchrun", "spawn"], default="torchrun")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--url", default="env://")
    args = parser.parse_args()
    if args.launcher == "spawn":
        mp.spawn(spawned, args=(args,), nprocs=args.gpus)
    else:
        launched()


if __name__ == "__main__":
    main()
