"""The call and the init are on different paths."""
import os

import torch
import torch.distributed as dist


def prepare(launched):
    if launched == "external":
        rank = dist.get_rank()
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        rank = dist.get_rank()
    return rank


def ensure():
    try:
        dist.get_rank()
    except ValueError:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")


def teardown(last):
    if last:
        dist.destroy_process_group()
        return
    dist.barrier()
