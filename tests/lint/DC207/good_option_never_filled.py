import argparse
import os

import torch
import torch.distributed as dist

LOCAL_RANK = int(os.getenv("LOCAL_RANK", -1))


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--local_rank", type=int, default=-1, help="do not modify")
    return parser.parse_args()


def main(options):
    if LOCAL_RANK != -1:
        torch.cuda.set_device(LOCAL_RANK)
        dist.init_process_group("nccl")
        print(options.epochs)
        dist.destroy_process_group()


if __name__ == "__main__":
    main(parse_options())
