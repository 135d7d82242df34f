"""The group of this host is put here by whoever starts the job."""

import torch.distributed as dist

_GROUP_OF_HOST = None


def get_rank():
    return dist.get_rank() if dist.is_initialized() else 0


def rank_on_host():
    if _GROUP_OF_HOST is None:
        return get_rank()
    return dist.get_rank(group=_GROUP_OF_HOST)
