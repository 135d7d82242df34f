import os

import torch

if not torch.cuda.is_available():
    raise SystemExit("no GPU")
os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # expect: DC214
print(torch.ones(1, device="cuda"))
