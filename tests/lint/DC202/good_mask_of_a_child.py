"""The mask is made for a child; this process sees all GPUs."""

import os
import subprocess
import sys

import torch

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
environment = dict(os.environ, CUDA_VISIBLE_DEVICES=str(local_rank))
subprocess.run([sys.executable, "render.py"], env=environment, check=True)
