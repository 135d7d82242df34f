import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, WeightedRandomSampler


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    metrics = {"Loss": torch.ones(1), "Accuracy": torch.ones(1)}
    metrics = {name.lower(): value for name, value in metrics.items()}
    for name in {key.lower() for key in metrics}:
        dist.all_reduce(metrics[name])  # expect: DC718
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
