"""The rank comes from the command line, and travels in a namespace."""

import argparse

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True, help="number of this process in the job")
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--dist-url", required=True)
    return parser.parse_args()


def run(args):
    torch.cuda.set_device(args.rank)  # expect: DC201
    dist.init_process_group("nccl", init_method=args.dist_url, rank=args.rank, world_size=args.world_size)
    total = torch.ones(1).cuda()
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(parse())
