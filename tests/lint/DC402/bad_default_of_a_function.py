import os

import torch
import torch.distributed as dist


def join(rank, size, port=40802):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", str(port))  # expect: DC402
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.destroy_process_group()


def main():
    join(int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]))
    torch.manual_seed(0)


if __name__ == "__main__":
    main()
