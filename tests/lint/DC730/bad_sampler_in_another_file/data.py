import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build_loader():
    data = TensorDataset(torch.randn(1000, 8))
    sampler = DistributedSampler(  # expect: DC730
        data, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=True, drop_last=True
    )
    return DataLoader(data, batch_size=32, sampler=sampler), sampler
