"""Eight to a node, written as a number and as a variable."""

import os

import torch

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % 8)
per_node = int(os.environ.get("GPUS_PER_NODE", "8"))
device = torch.device("cuda", rank % per_node)
print(torch.ones(1, device=device))
