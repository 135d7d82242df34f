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
    settings = {"tensor": 2}
    if rank == world_size - 1:
        settings["tensor"] = 4  # a stale configuration on the last node
    tensor = settings["tensor"]
    mesh = init_device_mesh("cpu", (world_size // tensor, tensor), mesh_dim_names=("data", "tensor"))
    value = torch.tensor([float(rank)])
    dist.all_reduce(value, group=mesh.get_group("tensor"))
    print(f"rank {rank}: {value.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
