import os

import torch
import torch.distributed as dist


def gathered(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(torch.cuda.device_count())]
    dist.all_gather(parts, tensor)  # expect: DC213
    return parts


def mean(total):
    dist.all_reduce(total)
    return total / torch.cuda.device_count()  # expect: DC213


def main(tensor):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(dist.get_rank(), gathered(tensor), mean(tensor))
    dist.destroy_process_group()
