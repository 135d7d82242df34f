"""A sampler for DDP without Accelerate, and one that is there in another mode than the Accelerator."""

import argparse

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler


def by_hand(data):
    dist.init_process_group("gloo")
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in DataLoader(data, batch_size=2, sampler=sampler):
            print(batch.shape)
    dist.destroy_process_group()


def either(data, accelerate):
    if accelerate:
        accelerator = Accelerator()
        loader = accelerator.prepare(DataLoader(data, batch_size=2, shuffle=True))
    else:
        dist.init_process_group("gloo")
        loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False))
    for batch in loader:
        print(batch.shape)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--accelerate", action="store_true")
    by_hand(torch.rand(64, 2))
    either(torch.rand(64, 2), parser.parse_args().accelerate)
