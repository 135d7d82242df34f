"""Each use is under the condition of the group, or in a function that leaves first."""
import argparse
import os

import torch
import torch.distributed as dist


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    args = parser.parse_args()
    args.distributed = args.gpus > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1
    if args.distributed:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    if rank() == 0:
        print("starting")
    if args.distributed:
        dist.barrier()
    if args.gpus > 1:
        dist.barrier()
    if not args.distributed:
        raise SystemExit("one process")
    dist.barrier()
    dist.destroy_process_group()


def other(distributed):
    if distributed:
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    other(True)
