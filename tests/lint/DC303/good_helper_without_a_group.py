"""The helper returns zeros where it makes no group: these are no ranks of a job."""

import os

import torch
import torch.distributed as dist


def init(args):
    if not args.several:
        return 0, 0, 1
    if args.launcher == "torchrun":
        rank, local_rank, size = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    elif args.launcher == "slurm":
        rank, local_rank, size = args.env.rank, args.env.local_rank, args.env.size
    else:
        return 0, 0, 1
    dist.init_process_group("nccl")
    return rank, local_rank, size


def first_gpu(args):
    if args.gpus == 1:
        return 0
    dist.init_process_group("nccl")
    return args.gpu


def run(args):
    rank, local_rank, size = init(args)
    torch.cuda.set_device(local_rank)


def run_another(args):
    torch.cuda.set_device(first_gpu(args))
