"""A parent that starts one process for each GPU knows the size."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=world_size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(worker, args=(world_size,), nprocs=world_size, join=True)
