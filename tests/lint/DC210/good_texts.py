import os

import torch
import torch.distributed as dist

THREADS = 4


def main(port):
    rank = int(os.environ["SLURM_PROCID"])
    os.environ["RANK"] = str(rank)
    os.environ["WORLD_SIZE"] = os.environ["SLURM_NTASKS"]
    os.environ["MASTER_PORT"] = f"{port}"
    os.environ["OMP_NUM_THREADS"] = "%d" % THREADS
    os.environ["MKL_NUM_THREADS"] = repr(THREADS)
    os.environ.setdefault("NCCL_DEBUG", "WARN")
    os.environ.update({"TOKENIZERS_PARALLELISM": "false"}, LOCAL_RANK=os.environ["SLURM_LOCALID"])
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()
