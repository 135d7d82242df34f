import os

import torch
from torch.distributed import destroy_process_group, init_process_group, monitored_barrier

BACKEND = "nccl"


def meet():
    monitored_barrier(wait_all_ranks=True)  # expect: DC120


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group(backend=BACKEND)
    meet()
    destroy_process_group()
