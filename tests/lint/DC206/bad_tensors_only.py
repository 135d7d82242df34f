"""The tensors are where they belong, but the barrier has to guess."""

import os

import torch
import torch.distributed as dist


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")  # expect: DC206=info
    weight = torch.ones(4, device=device)
    dist.barrier()
    dist.all_reduce(weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
