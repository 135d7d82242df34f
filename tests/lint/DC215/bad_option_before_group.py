"""torchrun passes no option: -1 stays, and with it GPU 0 for everybody."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)  # expect: DC215=info
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
dist.barrier()
dist.destroy_process_group()
