"""A process starts the ranks of its host but one, and goes on as that one: all of them reach the barrier."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def set_up(local_rank, count):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", world_size=count, rank=local_rank)
    dist.barrier()


def work(index, count):
    set_up(index + 1, count)
    dist.destroy_process_group()


def launch(count):
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        started = mp.spawn(work, nprocs=count - 1, args=(count,), join=False)
        set_up(0, count)
        dist.destroy_process_group()
        return started
    return None


if __name__ == "__main__":
    launch(torch.cuda.device_count())
