"""The global rank stands in only where no launcher gives the local one."""

import os

import torch


def local_rank():
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if "SLURM_LOCALID" in os.environ:
        return int(os.environ["SLURM_LOCALID"])
    return int(os.environ.get("RANK", "0"))


index = int(os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")))
torch.cuda.set_device(index)
print(torch.ones(1, device=f"cuda:{local_rank()}"))
