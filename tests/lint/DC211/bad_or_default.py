import os

import torch
import torch.distributed as dist


def setup(rank=None, local_rank=None):
    rank = rank or int(os.environ["RANK"])  # expect: DC211
    local_rank = local_rank or int(os.environ["LOCAL_RANK"])  # expect: DC211
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))


def close():
    dist.destroy_process_group()
