import random

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, size):
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    print(rank, torch.rand(1))
    dist.destroy_process_group()


def names_of(folder):
    names = sorted(folder)
    random.seed(1234)
    random.shuffle(names)
    return names


def main(seed):
    print(names_of(str(seed)))
    size = torch.cuda.device_count()
    mp.spawn(worker, nprocs=size, args=(size,))


if __name__ == "__main__":
    main(42)
