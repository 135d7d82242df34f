import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train():
    dist.barrier()
    dist.destroy_process_group()


def spawned(index, size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:12321", rank=index, world_size=size)
    train()


def main():
    if "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        train()
    else:
        count = torch.cuda.device_count()
        mp.spawn(spawned, args=(count,), nprocs=count)


if __name__ == "__main__":
    main()
