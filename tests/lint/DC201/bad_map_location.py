"""A checkpoint is sent to the GPU that bears the global rank."""

import os

import torch

rank = int(os.environ["RANK"])
state = torch.load("last.pt", map_location=f"cuda:{rank}")  # expect: DC201=info
other = torch.load("best.pt", map_location={"cuda:0": "cuda:%d" % rank})  # expect: DC201=info
print(len(state), len(other))
