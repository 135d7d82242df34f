"""Each arm takes the rank that is right there."""

import os

import torch

rank = int(os.environ["RANK"])
nodes = int(os.environ.get("NNODES", "1"))
if nodes == 1:
    torch.cuda.set_device(rank)
else:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print(torch.ones(1, device="cuda"))
