"""Functions of the project select the files: of each rank, or new ones."""

import glob
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save_part(model):
    handle, name = tempfile.mkstemp()
    os.close(handle)
    torch.save(model.state_dict(), name)
    return name


def own_files():
    return [name for i, name in enumerate(sorted(glob.glob("*.tmp"))) if i % dist.get_world_size() == dist.get_rank()]


def remove(name):
    os.remove(name)


def main():
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(2, 2))
    name = save_part(model)
    os.remove(name)
    remove(save_part(model))
    for name in own_files():
        os.remove(name)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
