import argparse
import os

import torch
import torch.distributed as dist


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--local_rank", type=int, default=-1, help="for old launchers")
    args = parser.parse_args()
    from_launcher = int(os.environ.get("LOCAL_RANK", -1))
    if from_launcher != -1 and from_launcher != args.local_rank:
        args.local_rank = from_launcher
    return args


def main():
    args = parse_args()
    if args.local_rank != -1:
        torch.cuda.set_device(args.local_rank)
        dist.init_process_group("nccl")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
