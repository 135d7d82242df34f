"""Only GPUs of CUDA are served by NCCL: the other branch has a backend of its own."""

import torch
import torch.distributed as dist


def run(args):
    dist.init_process_group("nccl" if args.cuda else "ccl")
    if not args.cuda:
        torch.xpu.set_device(0)
