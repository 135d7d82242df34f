"""What is assigned before a ``break`` holds after the loop."""

import os

import torch.distributed as dist
import wandb


def rank_from_environment():
    rank = 0
    for name in ("RANK", "PMI_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            rank = int(os.environ[name])
            break
    return rank


def main():
    dist.init_process_group("nccl")
    if rank_from_environment() == 0:
        wandb.init(project="loops")


if __name__ == "__main__":
    main()
