import os

import torch
import torch.distributed as dist


def setup() -> tuple:
    rank = int(os.environ["SLURM_PROCID"])
    size = int(os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    return rank, size


def main() -> None:
    proc, size = setup()
    norm = torch.ones(1)
    if not proc:
        dist.all_reduce(norm)  # expect: DC701
        print(norm / size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
