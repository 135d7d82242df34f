import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
options = parser.parse_args()
deepspeed.init_distributed(dist_backend="nccl")
device = torch.device("cuda", options.local_rank)
print(torch.zeros(1, device=device))
