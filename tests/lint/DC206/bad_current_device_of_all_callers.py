"""Each caller gives the model the current GPU."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(device, rank, size):
    if size > 1:
        dist.init_process_group("nccl", rank=rank, world_size=size)  # expect: DC206
    model = torch.nn.Linear(4, 4).to(device)
    if size > 1:
        model = DistributedDataParallel(model)
    model(torch.ones(1, 4, device=device)).sum().backward()
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        train("cuda", int(os.environ.get("RANK", 0)), size)
    else:
        train(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 0, size)
