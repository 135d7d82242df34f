"""Tensors travel as bytes."""
import torch
import torch.distributed as dist


def sizes(length, device):
    mine = torch.tensor([length], device=device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return torch.cat(every).tolist()
