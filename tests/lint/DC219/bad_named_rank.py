"""The variable's name does not help: it holds LOCAL_RANK."""

import os

import torch
import torch.distributed as dist


def setup(rank, size):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", "env://", rank=rank, world_size=size)  # expect: DC219=info


def main():
    rank = int(os.environ["LOCAL_RANK"])
    setup(rank, int(os.environ["WORLD_SIZE"]))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
