"""The worker counts for itself; the parent has started as many."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=torch.cuda.device_count())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=torch.cuda.device_count())
