"""As many replicas as this host has GPUs, and the local rank: right on one host, and nothing shows another."""

import os

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

RANK = int(os.environ["LOCAL_RANK"])
GPUS = torch.cuda.device_count()


def sampler(dataset):
    dist.init_process_group("nccl")
    return DistributedSampler(dataset, num_replicas=GPUS, rank=RANK)  # expect: DC219=info
