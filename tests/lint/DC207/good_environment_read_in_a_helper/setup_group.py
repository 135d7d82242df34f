import os

import torch
import torch.distributed as dist


def connect(args):
    if "LOCAL_RANK" in os.environ:
        args.local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(args.local_rank)
    dist.init_process_group("nccl")


def disconnect():
    dist.destroy_process_group()
