import torch
import torch.distributed.nn
from torch import nn


def gather(features):
    return torch.cat(torch.distributed.nn.all_gather(features), dim=0)


class Loss(nn.Module):
    def forward(self, features):
        return gather(features).sum()
