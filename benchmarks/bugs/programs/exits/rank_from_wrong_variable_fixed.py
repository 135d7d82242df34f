import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=int(os.environ["RANK"]))
    return parser.parse_args()


def main():
    arguments = parse()
    rank = arguments.rank
    dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=4))
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
