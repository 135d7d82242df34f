import os

import torch
from torch.distributed import destroy_process_group, init_process_group

RENDEZVOUS = "file:///shared/project/init"


def setup(rank, world):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group("nccl", RENDEZVOUS, rank=rank, world_size=world)  # expect: DC746


def main():
    setup(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    destroy_process_group()
