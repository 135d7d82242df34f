"""Each call of the helper names its own variables."""

import os

import torch
import torch.distributed as dist


def env2int(names, default=-1):
    for name in names:
        value = int(os.environ.get(name, -1))
        if value >= 0:
            return value
    return default


def main() -> None:
    rank = env2int(["PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK"], 0)
    local_rank = env2int(["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"], 0)
    dist.init_process_group("nccl", rank=rank)
    torch.cuda.set_device(local_rank)
    part = torch.ones(1, device=f"cuda:{local_rank}")
    dist.all_reduce(part)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
