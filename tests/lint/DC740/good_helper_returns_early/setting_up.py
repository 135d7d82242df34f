import os

import torch
import torch.distributed as dist


def set_up(options):
    if "RANK" not in os.environ:
        print("one process")
        options.distributed = False
        return
    options.distributed = True
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
