"""-1 is sorted out before; what is left is still the global rank."""

import os

import torch
import torch.distributed as dist

RANK = int(os.getenv("RANK", "-1"))


def main():
    if RANK != -1:
        torch.cuda.set_device(RANK)  # expect: DC201=info
        dist.init_process_group("nccl")
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
