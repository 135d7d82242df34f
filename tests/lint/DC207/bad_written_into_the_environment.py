import argparse
import os

import torch
import torch.distributed as dist


def parse_args():
    parser = argparse.ArgumentParser(description="train a detector")
    parser.add_argument("config")
    parser.add_argument("--launcher", choices=["none", "pytorch"], default="none")
    parser.add_argument("--local_rank", type=int, default=0)  # expect: DC207
    args = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        os.environ["LOCAL_RANK"] = str(args.local_rank)
    return args


def main():
    args = parse_args()
    if args.launcher == "pytorch":
        torch.cuda.set_device(args.local_rank)
        dist.init_process_group("nccl")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
