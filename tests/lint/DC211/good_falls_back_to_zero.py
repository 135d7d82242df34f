import os

import torch
import torch.distributed as dist


def main(rank=None):
    rank = rank or 0
    local_rank = int(os.environ.get("LOCAL_RANK") or 0)
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = f"cuda:{local_rank}" if local_rank else "cuda"
    print(rank, device)
    dist.destroy_process_group()
