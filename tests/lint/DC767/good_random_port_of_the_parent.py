"""The parent draws the port, or the launcher has set it."""

import os
import random

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, world_size: int) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    dist.barrier()
    dist.destroy_process_group()


def under_a_launcher() -> None:
    if "MASTER_PORT" not in os.environ:
        os.environ["MASTER_PORT"] = str(random.randint(20000, 30000))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "localhost"
    if "RANK" in os.environ:
        under_a_launcher()
    else:
        os.environ["MASTER_PORT"] = str(random.randint(20000, 30000))
        mp.spawn(worker, args=(2,), nprocs=2)
