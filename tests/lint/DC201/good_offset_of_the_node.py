"""Rank minus the first rank of the node is local."""

import os

import torch

rank = int(os.environ["RANK"])
node = int(os.environ["GROUP_RANK"])
per_node = int(os.environ["LOCAL_WORLD_SIZE"])
gpu = rank - node * per_node
torch.cuda.set_device(gpu)
print(torch.ones(1, device=f"cuda:{gpu}"))
