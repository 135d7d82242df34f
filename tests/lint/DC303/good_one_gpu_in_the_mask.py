"""One GPU is visible, so one process is spawned."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

os.environ["CUDA_VISIBLE_DEVICES"] = "4"


def worker(gpu, gpus):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:20001", world_size=gpus, rank=gpu)
    torch.cuda.set_device(0)
    total = torch.ones(1, device="cuda")
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    mp.spawn(worker, nprocs=gpus, args=(gpus,))
