import os
import random

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=size)
    dist.destroy_process_group()


def main():
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(random.randint(20000, 65000))  # expect: DC402
    mp.spawn(worker, args=(2,), nprocs=2)


if __name__ == "__main__":
    main()
