"""A constant tensor is reduced to make all ranks meet, or to warm the connections up."""
import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.all_reduce(torch.zeros(1).cuda())
    dist.all_reduce(torch.tensor([1], device="cuda"))
    dist.all_reduce(torch.ones(1024, 1024).to("cuda"))
    dist.all_reduce(torch.randn(16, device="cuda").float())
    torch.cuda.synchronize()
    dist.destroy_process_group()
