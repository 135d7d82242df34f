import torch
from torch.nn.parallel import DistributedDataParallel


def wrapped():
    model = torch.nn.Linear(4, 4).cuda()
    return DistributedDataParallel(model)
