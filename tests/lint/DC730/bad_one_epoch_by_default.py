"""The number of epochs is an option, and its default is one: a note."""

import argparse

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(dataset, model, optimizer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    sampler = DistributedSampler(dataset)  # expect: DC730=info
    loader = DataLoader(dataset, sampler=sampler, batch_size=8)
    model = DistributedDataParallel(model)
    for _epoch in range(args.epochs):
        for batch in loader:
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
