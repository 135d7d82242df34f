"""The number of nodes is read, so several are meant."""

import os

import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

nodes = int(os.environ.get("SLURM_NNODES", 1))


def sampler(dataset):
    local_rank = int(os.environ["LOCAL_RANK"])
    return DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=local_rank)  # expect: DC219
