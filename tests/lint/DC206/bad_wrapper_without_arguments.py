"""The helper takes no device, and the list of devices is read by a fixed number."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def cuda(obj):
    return obj.cuda()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, nargs="+")
    args = parser.parse_args()
    dist.init_process_group(backend="nccl")  # expect: DC206
    device = torch.device(args.gpus[0])
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(device))
    model(cuda(torch.ones(1, 4))).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
