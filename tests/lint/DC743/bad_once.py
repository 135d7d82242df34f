"""Two ways in, one finding."""
import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if "SLURM_PROCID" in os.environ:
        dist.init_process_group("nccl", rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"]))  # expect: DC743
    else:
        dist.init_process_group("nccl")


if __name__ == "__main__":
    setup()
    dist.barrier()
