import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def demo(rank, world_size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    dist.all_reduce(torch.ones(4, device=rank))
    dist.destroy_process_group()


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "12355")
    n_gpus = torch.cuda.device_count()
    mp.spawn(demo, args=(n_gpus,), nprocs=n_gpus, join=True)


if __name__ == "__main__":
    main()
