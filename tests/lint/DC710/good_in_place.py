import torch
import torch.distributed as dist


def mean_loss(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss / dist.get_world_size()


def total(values):
    counts = torch.tensor(values, device="cuda")
    dist.all_reduce(counts, op=dist.ReduceOp.SUM)
    counts = counts / dist.get_world_size()
    return counts.tolist()
