"""The launch gives the model the GPU of the rank; only a run of one process gives it the current one. A note."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(rank, size):
    if size > 1:
        dist.init_process_group("nccl", rank=rank, world_size=size)  # expect: DC206=info
    model = torch.nn.Linear(4, 4).to(rank)
    inputs = torch.ones(1, 4, device=rank)
    if size > 1:
        model = DistributedDataParallel(model, device_ids=[rank])
    model(inputs).sum().backward()
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        train(int(os.environ.get("RANK", 0)), size)
    else:
        train(torch.device("cuda" if torch.cuda.is_available() else "cpu"), size)
