"""Two workers, each in a process of its own."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def evaluate(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    gpus = torch.cuda.device_count()
    mp.spawn(train, args=(gpus,), nprocs=gpus)
    mp.spawn(evaluate, args=(gpus,), nprocs=gpus)
