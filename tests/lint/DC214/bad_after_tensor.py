import os

import torch

warm = torch.ones(1, device="cuda")
os.environ.update({"CUDA_VISIBLE_DEVICES": "2,3"})  # expect: DC214
print(warm, torch.cuda.device_count())
