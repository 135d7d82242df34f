"""A comprehension makes the numbers; the element is still one of the hardware's."""

import os

import torch

ids = [int(part) for part in os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")]
device = torch.device("cuda", ids[int(os.environ["LOCAL_RANK"])])  # expect: DC202
print(torch.ones(1, device=device))
