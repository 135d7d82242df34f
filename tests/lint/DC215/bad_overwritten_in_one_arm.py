import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", default=-1, type=int)
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()
if args.cpu:
    args.local_rank = torch.device("cpu")
model = torch.nn.Linear(2, 2).cuda(args.local_rank)  # expect: DC215
