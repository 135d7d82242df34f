import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset


import random
def parts_of(names, rank, world_size):
    names = names[rank::world_size]
    random.shuffle(names)
    return names



def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    random.seed(rank)
    for name in parts_of([f"part{index}" for index in range(8)], rank, world_size):
        print(name)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
