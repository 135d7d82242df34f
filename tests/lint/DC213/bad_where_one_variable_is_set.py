import os

import torch
import torch.distributed as dist


def connect():
    if "RANK" in os.environ or "SLURM_PROCID" in os.environ:
        os.environ["WORLD_SIZE"] = str(torch.cuda.device_count())  # expect: DC213
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


if __name__ == "__main__":
    connect()
    dist.barrier()
    dist.destroy_process_group()
