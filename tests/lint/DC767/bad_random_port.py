"""Each task of Slurm draws its own port."""

import os
import random

import torch
import torch.distributed as dist


def set_up(port: str) -> None:
    rank = int(os.environ["SLURM_PROCID"])
    if "MASTER_PORT" not in os.environ:
        os.environ["MASTER_PORT"] = port  # expect: DC767
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))


def main() -> None:
    set_up(str(20000 + random.randint(0, 1000)))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
