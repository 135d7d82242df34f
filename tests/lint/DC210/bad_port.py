import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, size):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = 12355  # expect: DC210
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=size)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
