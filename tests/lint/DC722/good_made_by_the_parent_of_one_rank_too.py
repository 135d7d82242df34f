"""The parent has made the folder, and enters the function of the ranks itself where there is one GPU."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, args: argparse.Namespace) -> None:
    if args.gpus > 1:
        dist.init_process_group("nccl", init_method="tcp://localhost:29555", rank=rank, world_size=args.gpus)
    torch.cuda.set_device(rank)
    if not os.path.exists(args.out):
        os.makedirs(args.out)
    print(os.listdir(args.out))
    if args.gpus > 1:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    parser.add_argument("--gpus", type=int, default=2)
    args = parser.parse_args()
    if not os.path.exists(args.out):
        os.makedirs(args.out)
    if args.gpus > 1:
        mp.spawn(worker, args=(args,), nprocs=args.gpus)
    else:
        worker(0, args)


if __name__ == "__main__":
    main()
