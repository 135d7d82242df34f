"""Seeds are kept until CUDA starts: they start nothing."""

import os

import torch

torch.cuda.manual_seed_all(0)
torch.backends.cudnn.benchmark = True
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
print(torch.ones(1, device="cuda"))
