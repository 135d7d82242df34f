import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--ranks-per-node", type=int, default=2)
    return parser.parse_args()


def main():
    arguments = parse()
    rank = arguments.node_rank * arguments.ranks_per_node
    dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=4))
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
