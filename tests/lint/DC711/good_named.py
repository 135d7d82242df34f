import torch
import torch.distributed as dist


def log_loss(loss, step):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= dist.get_world_size()
    print(step, mean.item())


def accuracy(correct, seen, device):
    both = torch.tensor([correct, seen], device=device)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
