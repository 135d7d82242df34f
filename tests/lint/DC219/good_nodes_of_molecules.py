"""The nodes are atoms of molecules: nothing shows a second host."""

import os

import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def sampler(dataset, n_nodes, num_nodes):
    print(max(n_nodes), num_nodes)
    dist.init_process_group("gloo")
    return DistributedSampler(dataset, rank=int(os.environ["LOCAL_RANK"]))  # expect: DC219=info
