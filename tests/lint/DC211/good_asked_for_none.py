import os

import torch
import torch.distributed as dist


def setup(rank=None, size=None):
    rank = int(os.environ["RANK"]) if rank is None else rank
    size = size or int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", rank=rank, world_size=size)
    main_process = rank == 0 or size == 1
    return main_process


def close():
    dist.destroy_process_group()
