"""Ranks may make different numbers of steps: DDP joins them, or averages nothing."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    start = time.time()
    model(torch.rand(2, 2).cuda()).sum().backward()
    steps = int(60 / (time.time() - start))
    with model.join():
        for _ in range(steps):
            model(torch.rand(2, 2).cuda()).sum().backward()
    for _ in range(steps):
        with model.no_sync():
            model(torch.rand(2, 2).cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
