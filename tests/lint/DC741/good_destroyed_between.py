import os

import torch
import torch.distributed as dist


def main(sizes):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()
    for size in sizes:
        dist.init_process_group("nccl")
        dist.all_reduce(torch.ones(size, device="cuda"))
        dist.destroy_process_group()
