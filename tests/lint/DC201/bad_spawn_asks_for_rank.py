"""One host: the group's rank is the spawned index, so that get_rank() gives that."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def place(model):
    return model.to(dist.get_rank())  # expect: DC201=info


def worker(index, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("gloo", rank=index, world_size=world_size)
    print(place(torch.nn.Linear(4, 4)))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(4,), nprocs=4)
