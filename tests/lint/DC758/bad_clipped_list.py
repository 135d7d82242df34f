import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, WeightedRandomSampler


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    (weight * rank).square().mean().backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)  # expect: DC758
    dist.all_reduce(weight.grad)
    weight.grad /= world_size
    optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
