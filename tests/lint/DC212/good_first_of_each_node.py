"""The remainder finds the first rank of each node: no device."""

import os

import torch

rank = int(os.environ["RANK"])
if rank % torch.cuda.device_count() == 0:
    print("first on this node")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
