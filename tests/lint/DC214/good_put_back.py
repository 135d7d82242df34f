"""Nothing of this process uses the GPU: the mask is for the processes that follow."""

import os
import subprocess
import sys

import torch

gpus = torch.cuda.device_count()
for index in range(gpus):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
    subprocess.Popen([sys.executable, "train_one.py"])
