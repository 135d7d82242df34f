import torch.distributed

from .loss import Loss
