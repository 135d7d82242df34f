"""All tasks draw the same port: they have the same seed."""

import os
import random

import torch
import torch.distributed as dist


def fix(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def main() -> None:
    fix(int(os.environ["SLURM_JOB_ID"]))
    rank = int(os.environ["SLURM_PROCID"])
    os.environ["MASTER_PORT"] = str(20000 + random.randint(0, 1000))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
