"""A sampler that is told rank and number asks nobody."""
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def main(dataset, model):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank)
    again = DistributedSampler(dataset, world, rank, shuffle=False)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in DataLoader(dataset, sampler=sampler):
            model(batch)
    for batch in DataLoader(dataset, sampler=again):
        model(batch)
    dist.destroy_process_group()
