import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, WeightedRandomSampler


def train(model, optimizer, batches):
    for index, batch in enumerate(batches):
        averages = index % 4 == 0
        with model.no_sync() if not averages else torch.enable_grad():  # expect: DC759
            model(batch).square().mean().backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(3, 3))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(8, 4, 3))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
