"""The same mistake through the text of a device."""

import os

import torch

gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
gpu = gpus[int(os.environ["LOCAL_RANK"])]
device = torch.device("cuda:" + gpu)  # expect: DC202
print(torch.ones(1, device=device))
