"""Trains a small model.

Start it with::

    torchrun --standalone --nproc-per-node=8 train.py
"""

import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
