import subprocess
import sys

import torch
from packaging import version


def start(script, count):
    installed = version.parse(torch.__version__)
    if installed < version.parse("1.9"):
        command = [sys.executable, "-m", "torch.distributed.launch", f"--nproc_per_node={count}", script]
    else:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}", script]
    return subprocess.run(command, check=True)
