import torch
import torch.distributed as dist


def work(args):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())  # expect: DC201
