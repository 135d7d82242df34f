import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="env://", world_size=size, rank=rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "localhost"  # expect: DC744=info
    os.environ["MASTER_PORT"] = "80000"  # expect: DC402=error
    mp.spawn(train, nprocs=2, args=(2,))
