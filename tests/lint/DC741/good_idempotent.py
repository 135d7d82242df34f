"""These create the group only where there is none."""
import os

import deepspeed
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def main(model):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    deepspeed.init_distributed()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    print(mesh, model)
    dist.destroy_process_group()
