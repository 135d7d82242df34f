"""The list of GPUs comes too late: set_device counts all GPUs of the host, not those of the list."""

import os

import torch

print(torch.cuda.is_available())
os.environ["CUDA_VISIBLE_DEVICES"] = "4,5,6,7"  # expect: DC214
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
