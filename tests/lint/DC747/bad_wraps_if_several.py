"""The model is wrapped only where the group has other ranks."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start():
    rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    try:
        dist.init_process_group("gloo", rank=rank, world_size=world_size)  # expect: DC747
    except Exception as error:
        rank, world_size = 0, 1
        print("one process", error)
    return rank, world_size


def main():
    _, world_size = start()
    model = torch.nn.Linear(8, 8)
    if world_size > 1:
        model = DistributedDataParallel(model)
    model(torch.zeros(1, 8)).sum().backward()


if __name__ == "__main__":
    main()
