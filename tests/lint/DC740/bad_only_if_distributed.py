"""The group is there in a distributed run only; a later line uses it in any run."""
import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    args.distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if args.distributed:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    for epoch in range(args.epochs):
        print(epoch)
    if dist.get_rank() == 0:  # expect: DC740=warning
        print("finished")


if __name__ == "__main__":
    main()
