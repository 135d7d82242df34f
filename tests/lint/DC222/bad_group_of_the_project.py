import torch.distributed as dist

_GROUP = None


def is_context_parallel_initialized():
    return _GROUP is not None


def initialize_context_parallel(size):
    global _GROUP
    for first in range(0, dist.get_world_size(), size):
        group = dist.new_group(list(range(first, first + size)))
        if first <= dist.get_rank() < first + size:
            _GROUP = group


def encode(x, size):
    if not is_context_parallel_initialized:  # expect: DC222=error
        initialize_context_parallel(size)
    dist.broadcast(x, src=dist.get_rank() // size * size, group=_GROUP)
    return x
