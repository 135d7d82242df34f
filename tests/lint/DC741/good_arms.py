"""Only one of them runs."""
import os

import torch
import torch.distributed as dist


def setup(launcher):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if launcher == "slurm":
        rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
        dist.init_process_group("nccl", rank=rank, world_size=world)
    elif launcher == "pytorch":
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("nccl", init_method="env://")


def setup_early(launcher):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if launcher == "pytorch":
        dist.init_process_group("nccl")
        return
    dist.init_process_group("nccl", init_method="env://")


def setup_either(timeout):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        dist.init_process_group("nccl", timeout=timeout)
    except TypeError:
        dist.init_process_group("nccl")
