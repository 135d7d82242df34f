import torch.distributed as dist


def leading() -> bool:
    return dist.get_rank() == 0
