"""What the environment gives is text: an index must be a number."""

import os

import torch

torch.cuda.set_device(os.environ["LOCAL_RANK"])  # expect: DC215
device = torch.device("cuda", os.environ["LOCAL_RANK"])  # expect: DC215
print(torch.ones(1, device=device))
