"""The number of this node comes from a library."""

import os

from composer.utils import dist
from torch.utils.data.distributed import DistributedSampler

print(dist.get_node_rank())


def sampler(dataset):
    return DistributedSampler(dataset, num_replicas=8, rank=int(os.environ["LOCAL_RANK"]))  # expect: DC219
