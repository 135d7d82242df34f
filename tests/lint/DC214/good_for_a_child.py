import os
import subprocess
import sys

import torch

environment = os.environ.copy()
for index in range(torch.cuda.device_count()):
    environment["CUDA_VISIBLE_DEVICES"] = str(index)
    subprocess.run([sys.executable, "evaluate.py"], env=environment, check=True)
