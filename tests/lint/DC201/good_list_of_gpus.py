"""The rank picks from a list that somebody made: what is in the list decides."""

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, nargs="+", required=True)
args = parser.parse_args()
rank = int(os.environ["RANK"])
torch.cuda.set_device(args.gpus[rank])
print(torch.ones(1, device="cuda"))
