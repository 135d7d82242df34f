"""What the last run left is removed before the workers start."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PATH = "/tmp/rendezvous"


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + PATH, rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if os.path.exists(PATH):
        os.remove(PATH)
    world = torch.cuda.device_count()
    mp.spawn(worker, args=(world,), nprocs=world)


if __name__ == "__main__":
    main()
