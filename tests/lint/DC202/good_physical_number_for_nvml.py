"""NVML counts the hardware: there the number from the mask is right."""

import os

import pynvml
import torch

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
physical = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetHandleByIndex(physical))
