"""Whoever starts it names the place."""
import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist-url", default="env://")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        "nccl", init_method=args.dist_url, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
