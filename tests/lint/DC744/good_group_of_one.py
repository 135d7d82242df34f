"""Tried by hand: one process, a group of one rank, no launcher."""

import os

import torch.distributed as dist

if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "6020"
    dist.init_process_group(backend="gloo", init_method="env://", rank=0, world_size=1)
