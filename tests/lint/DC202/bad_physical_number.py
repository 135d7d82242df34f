"""The mask is turned into the numbers of the hardware, which nobody understands inside of the mask."""

import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
torch.cuda.set_device(int(visible[local_rank]))  # expect: DC202
print(torch.ones(1, device="cuda"))
