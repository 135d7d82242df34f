import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build_loader():
    data = TensorDataset(torch.randn(1000, 8))
    return DataLoader(data, batch_size=32, sampler=DistributedSampler(data, shuffle=True))
