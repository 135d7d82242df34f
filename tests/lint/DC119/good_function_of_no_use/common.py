import os

import torch.distributed as dist


def start_quietly(rank, size):
    os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "0"
    dist.init_process_group("gloo", rank=rank, world_size=size)


def mean(values):
    dist.all_reduce(values)
    return values / dist.get_world_size()
