"""Tests that name a rank and come out alike on every rank."""

import argparse
import os

import torch
import torch.distributed as dist

RANK = int(os.getenv("RANK", -1))
WORLD_SIZE = int(os.getenv("WORLD_SIZE", 1))


def main(args: argparse.Namespace) -> None:
    if RANK != -1:
        dist.init_process_group("gloo")
    args.distributed = WORLD_SIZE > 1
    value = torch.ones(1)
    if RANK != -1:
        dist.all_reduce(value)
    if RANK >= 0:
        dist.barrier()
    if RANK > -1 and dist.is_available() and dist.is_initialized():
        dist.broadcast(value, src=0)
    if WORLD_SIZE > 1:
        dist.barrier()
    if args.distributed:
        dist.barrier()
    if args.local_rank is not None and args.local_rank != -1:
        dist.all_reduce(value)
    if not RANK == -1:
        dist.barrier()
    if RANK != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.getenv("LOCAL_RANK", -1)))
    main(parser.parse_args())
