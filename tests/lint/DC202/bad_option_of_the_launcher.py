"""The launcher passes the local rank as an option."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
args = parser.parse_args()
os.environ["CUDA_VISIBLE_DEVICES"] = str(args.local_rank)
torch.cuda.set_device(args.local_rank)  # expect: DC202
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
