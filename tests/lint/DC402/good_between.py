import os
import random

import torch
import torch.distributed as dist


def main():
    job = int(os.environ["SLURM_JOB_ID"])
    os.environ.setdefault("MASTER_PORT", str(20000 + job % 10000))
    os.environ.setdefault("BACKUP_PORT", str(random.randint(10000, 20000)))
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group(
        "nccl", rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"])
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
