"""In the text of a device the text of a number is right."""

import os

import torch

device = torch.device("cuda:" + os.environ["LOCAL_RANK"])
torch.cuda.set_device(f"cuda:{os.environ['LOCAL_RANK']}")
print(torch.ones(1, device=device))
