import torch.distributed as dist


def leading() -> bool:
    return dist.get_world_size() > 1
