"""A library: who calls it may have bound the device."""

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("nccl", timeout=timeout)
