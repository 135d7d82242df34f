import os

import torch.distributed as dist


def by_torchrun(cfg: object) -> None:
    if "LOCAL_RANK" in os.environ:
        cfg.local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")


def by_slurm(cfg: object) -> None:
    dist.init_process_group("nccl", init_method="env://")
    cfg.local_rank = dist.get_rank()
