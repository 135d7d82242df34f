import subprocess
import sys

import torch


def module():
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (1, 10):
        return "torch.distributed.launch"
    return "torch.distributed.run"


def start(script):
    subprocess.run([sys.executable, "-m", module(), script], check=True)
