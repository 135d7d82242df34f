"""A mesh of one dimension has one group, and rank 0 is in it."""
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def share(batch, world):
    mesh = init_device_mesh("cuda", (world,))
    dist.broadcast(batch, src=0, group=mesh.get_group())
    return batch
