"""A copy as input is right: the output has a name."""
import torch
import torch.distributed as dist


def everyone(features):
    world = dist.get_world_size()
    parts = [torch.empty_like(features) for _ in range(world)]
    dist.all_gather(parts, features.clone())
    whole = torch.empty(world * features.shape[0], *features.shape[1:], device=features.device)
    dist.all_gather_into_tensor(whole, features.detach().float())
    share = torch.empty_like(features)
    dist.reduce_scatter_tensor(share, whole.clone())
    return parts, whole, share
