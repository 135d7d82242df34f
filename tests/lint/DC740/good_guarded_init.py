"""The init makes sure of a group that may be there already."""
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def ensure():
    if not dist.is_initialized():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    return dist.get_rank()


def by_mesh():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh("cuda", (2,))
    print(dist.get_rank(), mesh)
    dist.destroy_process_group()
