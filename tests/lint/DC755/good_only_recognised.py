import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def is_parallel(model: nn.Module) -> bool:
    return isinstance(model, (DataParallel, DistributedDataParallel))


def unwrap(model: nn.Module) -> nn.Module:
    if type(model) in (nn.DataParallel, nn.parallel.DistributedDataParallel):
        return model.module
    return model


def weights(model: nn.DataParallel) -> dict[str, torch.Tensor]:
    return unwrap(model).state_dict()
