"""A launcher that sets RANK decides; without one there is one process."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
args = parser.parse_args()
if "RANK" not in os.environ:
    os.environ["RANK"] = str(args.local_rank)
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
