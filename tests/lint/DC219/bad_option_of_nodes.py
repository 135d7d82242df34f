"""The node of this process is an option."""

import argparse
import os

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--node_rank", type=int, default=0)
args = parser.parse_args()
dist.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]), world_size=16)  # expect: DC219
