from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def whole(data):
    return DataLoader(data, batch_size=32, shuffle=True)


def divided(data):
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=32, sampler=sampler)
