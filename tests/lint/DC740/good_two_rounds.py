"""Between destroy and the next use stands another init."""
import os

import torch
import torch.distributed as dist


def measure(sizes):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for size in sizes:
        dist.init_process_group("nccl")
        dist.all_reduce(torch.ones(size, device="cuda"))
        dist.destroy_process_group()


def again():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()
