"""A default that the caller replaces."""

import os

import torch
import torch.distributed as dist


def build(device="cuda:0"):
    return torch.nn.Linear(4, 4).to(device)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    print(build(device=f"cuda:{local_rank}"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
