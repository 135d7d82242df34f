"""Other spellings of the guard."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def start(world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(worker, args=(world,), nprocs=world)


if "__main__" == __name__ and len(sys.argv) > 1:
    start(int(sys.argv[1]))
elif __name__ == "__main__":
    start(torch.cuda.device_count())
