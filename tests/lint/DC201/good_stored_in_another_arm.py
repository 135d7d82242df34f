import argparse
import os

import torch
import torch.distributed as dist


def setup(cfg):
    if "SLURM_PROCID" in os.environ:
        rank = int(os.environ["SLURM_PROCID"])
        cfg.local_rank = rank
        dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
    elif cfg.no_cuda:
        cfg.device = "cpu"
    else:
        torch.cuda.set_device(cfg.local_rank)
        dist.init_process_group("nccl")


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", "0")))
parser.add_argument("--no_cuda", action="store_true")
setup(parser.parse_args())
