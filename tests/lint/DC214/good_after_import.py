"""The import alone starts nothing."""

import os

import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "1"
torch.manual_seed(0)
print(torch.ones(1, device="cuda"))
