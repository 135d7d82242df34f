import torch
import torch.distributed.nn.functional as collectives
from torch.distributed.nn import all_reduce  # expect: DC760


def features(x):
    gathered = collectives.all_gather(x)  # expect: DC760
    return torch.cat(gathered)


def mean(x, size):
    return all_reduce(x) / size
