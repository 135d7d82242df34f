"""The version before the launcher: no file imports it, and it starts nothing."""

import os

import torch.distributed as dist

HERE = os.path.dirname(__file__)


def worker(rank, size):
    os.environ["MASTER_PORT"] = "8100"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.destroy_process_group()
