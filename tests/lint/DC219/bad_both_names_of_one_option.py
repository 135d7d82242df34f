"""The launcher fills the option under its second name, which is the local rank."""

import argparse

import torch.distributed as dist
from torch.utils.data import DistributedSampler


def main(dataset):
    parser = argparse.ArgumentParser()
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--rank", "--local_rank", "--local-rank", default=0, type=int)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=args.rank)  # expect: DC219
    print(args.node_rank, len(sampler))
    dist.destroy_process_group()
