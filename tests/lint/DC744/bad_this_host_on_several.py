"""Several hosts are meant, and each of them is given its own address."""

import os

import torch
import torch.distributed as dist


def main():
    os.environ["MASTER_ADDR"] = "localhost"  # expect: DC744
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=8 * int(os.environ["NNODES"]))
    return torch.ones(1)


main()
