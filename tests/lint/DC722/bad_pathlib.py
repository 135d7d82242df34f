import os
from pathlib import Path

import torch
import torch.distributed as dist

OUTPUT = Path("results")


def prepare(folder):
    if not folder.exists():
        folder.mkdir(parents=True)  # expect: DC722


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    prepare(OUTPUT)
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()
