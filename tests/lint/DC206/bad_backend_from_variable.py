"""The name of the backend takes a detour."""

import os

import torch
import torch.distributed as dist

BACKEND = "nccl"


def setup(backend):
    dist.init_process_group(backend, init_method="env://")  # expect: DC206


def main():
    setup(BACKEND)
    names = [None] * int(os.environ["WORLD_SIZE"])
    dist.all_gather_object(names, os.environ["LOCAL_RANK"])
    print(names, torch.__version__)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
