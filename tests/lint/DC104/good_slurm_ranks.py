import os
import subprocess

import torch
import torch.distributed as dist


def main(port):
    rank = int(os.environ["SLURM_PROCID"])
    local_rank = int(os.environ["SLURM_LOCALID"])
    head = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_NODELIST"]], text=True)
    torch.cuda.set_device(local_rank)
    dist.init_process_group(
        "nccl",
        init_method=f"tcp://{head.split()[0]}:{port}",
        rank=rank,
        world_size=int(os.environ["SLURM_NTASKS"]),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(10000 + int(os.environ["SLURM_JOB_ID"]) % 10000)
