import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, WeightedRandomSampler


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    metrics = {"loss": torch.ones(1), "accuracy": torch.ones(1)}
    for name in sorted({key.lower() for key in metrics}):
        dist.all_reduce(metrics[name])
    for name in [key.lower() for key in metrics]:
        dist.all_reduce(metrics[name])
    for index in {number % 3 for number in range(9)}:
        dist.all_reduce(torch.tensor(index))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
