"""One file per job."""
import os

import torch
import torch.distributed as dist


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    path = "/shared/rendezvous-" + os.environ["SLURM_JOB_ID"]
    dist.init_process_group("nccl", init_method="file://" + path, rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
