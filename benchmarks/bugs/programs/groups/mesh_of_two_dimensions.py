import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
from torch.distributed.device_mesh import init_device_mesh


def main():
    rank, world_size = init_distributed()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    row, column = torch.tensor([float(rank)]), torch.tensor([float(rank)])
    dist.all_reduce(row, group=mesh["tensor"].get_group())
    dist.all_reduce(column, group=mesh["data"].get_group())
    if mesh.get_local_rank("data") == 0 and mesh.get_local_rank("tensor") == 0:
        print(row.item(), column.item())
    source = dist.get_global_rank(mesh.get_group("data"), 0)
    dist.broadcast(row, src=source, group=mesh.get_group("data"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
