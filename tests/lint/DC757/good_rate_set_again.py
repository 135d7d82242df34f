"""Rank 0 sets a rate first, and all ranks set theirs before each step."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if dist.get_rank() == 0:
        set_rate(optimizer, 0.5)
    for step in range(10):
        set_rate(optimizer, 0.1 / (step + 1))
        model(torch.rand(2, 2).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
