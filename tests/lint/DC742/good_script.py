"""Nobody imports a script that torchrun starts."""
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
RANK = dist.get_rank()


def info(text):
    if RANK == 0:
        print(text)


info("started")
dist.destroy_process_group()
