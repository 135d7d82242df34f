"""Started by hand on each node: address, number of processes and rank are options."""

import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--dist-url", default="tcp://10.1.1.1:23456")
parser.add_argument("--world-size", type=int, default=1)
parser.add_argument("--rank", type=int, default=0)
args = parser.parse_args()

dist.init_process_group("nccl", init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
torch.cuda.set_device(dist.get_rank())  # expect: DC201
