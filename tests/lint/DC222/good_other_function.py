import torch.distributed as dist


def is_parallel_or_none():
    return None


def load_hook():
    return dist.get_world_size() > 1


def main(options, is_main_hook=None):
    # an optional function, and one that is about nothing here
    if is_main_hook:
        is_main_hook()
    is_distributed_hook = is_parallel_or_none if options.hook else None
    if is_distributed_hook:
        is_distributed_hook()
