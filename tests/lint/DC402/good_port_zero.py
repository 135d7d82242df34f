import os

import torch
import torch.distributed as dist


def main():
    rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
    port = 0 if rank == 0 else int(os.environ["HEAD_PORT"])
    store = dist.TCPStore(os.environ["HEAD"], port, size, rank == 0)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
