import os

import torch
from torch.distributed import all_reduce, destroy_process_group, init_process_group


def measure(sizes):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for size in sizes:
        init_process_group("nccl")  # expect: DC741
        all_reduce(torch.ones(size, device="cuda"))
    destroy_process_group()
