"""-1 as the last element of a list is no device."""

import os

import torch

order = [0, 1, 2]
rank = int(os.environ.get("RANK", -1))
print(order[rank], torch.zeros(3).argmax(dim=-1))
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
