"""Rank 0 decides by its clock and tells the others, or the clock ends a loop in which each rank works alone."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def announced(model, hours):
    begin = time.time()
    model(torch.rand(2, 2)).sum().backward()
    steps = torch.tensor(int(hours * 3600 / (time.time() - begin))).cuda()
    dist.broadcast(steps, src=0)
    for _ in range(int(steps.item())):
        model(torch.rand(2, 2)).sum().backward()


def shown(model, steps):
    begin = time.time()
    for step in range(steps):
        model(torch.rand(2, 2)).sum().backward()
        if dist.get_rank() == 0:
            print(step / (time.time() - begin))


def alone(net, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        net(torch.rand(2, 2)).sum().backward()


def as_object(model, hours):
    begin = time.time()
    model(torch.rand(2, 2)).sum().backward()
    steps = [int(hours * 3600 / (time.time() - begin))]
    dist.broadcast_object_list(steps, src=0)
    for _ in range(steps[0]):
        model(torch.rand(2, 2)).sum().backward()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    announced(model, 1)
    shown(model, 100)
    alone(torch.nn.Linear(2, 2), 5)
    as_object(model, 1)
    dist.destroy_process_group()
