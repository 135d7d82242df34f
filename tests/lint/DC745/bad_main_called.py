import os

import torch
import torch.distributed as dist
from torch.multiprocessing import spawn


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    world = torch.cuda.device_count()
    spawn(worker, args=(world,), nprocs=world)


main()  # expect: DC745
