import os

import torch
import torch.distributed as dist


def main():
    rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
    store = dist.TCPStore(os.environ["HEAD"], 50123, size, rank == 0)  # expect: DC402
    dist.init_process_group("nccl", store=store, rank=rank, world_size=size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
