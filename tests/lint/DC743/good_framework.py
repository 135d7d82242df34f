"""Accelerate owns the group."""
import os

import torch
import torch.distributed as dist
from accelerate import Accelerator


def main(model):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    accelerator = Accelerator()
    accelerator.prepare(model)


if __name__ == "__main__":
    main(torch.nn.Linear(2, 2))
