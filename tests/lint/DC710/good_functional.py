"""These functions of the same names return the result."""
import torch
import torch.distributed._functional_collectives as funcol
import torch.distributed as dist


def mean_loss(loss):
    return funcol.all_reduce(loss, "avg", dist.group.WORLD) / 1.0


def everyone(features):
    gathered = funcol.all_gather_tensor(features, gather_dim=0, group=dist.group.WORLD)
    return torch.nn.functional.normalize(gathered)
