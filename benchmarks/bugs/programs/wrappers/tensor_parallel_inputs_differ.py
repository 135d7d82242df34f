import copy
import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    reference = copy.deepcopy(model)
    mesh = init_device_mesh("cpu", (world_size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    torch.manual_seed(100 + rank)
    for _ in range(2):
        batch = torch.randn(4, 8)
        answer = model(batch)
        print(f"rank {rank} agree {torch.allclose(answer, reference(batch), atol=1e-5)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
