"""The device comes from a list, by rank, and a helper hands it on."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def cuda(obj, *args, **kwargs):
    return obj.cuda(*args, **kwargs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, nargs="+")
    args = parser.parse_args()
    dist.init_process_group(backend="nccl")
    device = torch.device(args.gpus[dist.get_rank()])
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(device))
    model(cuda(torch.ones(1, 4), device=device)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
