"""The number of nodes is read, but the sampler divides by the GPUs of this host."""

import os

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

nodes = int(os.environ.get("SLURM_NNODES", 1))


def sampler(dataset):
    local_rank = int(os.environ["LOCAL_RANK"])
    return DistributedSampler(dataset, num_replicas=torch.cuda.device_count(), rank=local_rank)  # expect: DC219=info
