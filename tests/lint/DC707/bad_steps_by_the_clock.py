"""Each rank computes the number of its steps from the time that it measured, or ends its loop by its own clock."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


def train(model, steps):
    bar = tqdm(range(steps), disable=dist.get_rank() != 0)
    for _ in bar:
        loss = model(torch.rand(2, 2)).sum()
        loss.backward()  # expect: DC707


def measured(model, hours):
    begin = time.time()
    for _ in range(5):
        model(torch.rand(2, 2)).sum().backward()
    rate = 5 / (time.time() - begin)
    train(model, int(rate * hours * 3600))


def limited(model, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        model(torch.rand(2, 2)).sum().backward()  # expect: DC707


if __name__ == "__main__":
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    measured(model, 1)
    limited(model, 60)
    dist.destroy_process_group()
