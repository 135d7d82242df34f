from os import environ

import torch
import torch.distributed as dist

OFF = "0"


def setup():
    environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", OFF)  # expect: DC119
    torch.cuda.set_device(int(environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def close():
    dist.destroy_process_group()
