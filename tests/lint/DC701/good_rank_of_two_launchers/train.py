import os

import torch.distributed as dist
from launchers import by_slurm, by_torchrun


def main(cfg: object) -> None:
    by_slurm(cfg) if cfg.slurm else by_torchrun(cfg)
    fetch = not os.path.exists(cfg.model)
    if fetch and cfg.local_rank not in [-1, 0]:
        dist.barrier()
    print("the first rank downloads here")
    if fetch and cfg.local_rank == 0:
        dist.barrier()
