import os

import torch
import torch.distributed as dist


def run(index, steps):
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    for _ in range(steps):
        dist.all_reduce(torch.ones(1, device=device))
    dist.destroy_process_group()
