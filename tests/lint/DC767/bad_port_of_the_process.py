"""A port of the process id."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(rank, world_size):
    port = 20000 + os.getpid() % 10000
    os.environ["MASTER_PORT"] = str(port)  # expect: DC767
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    print(DDP(torch.nn.Linear(4, 4).cuda()))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
