import subprocess
import sys


def start(script, count):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.launch",  # expect: DC801
        f"--nproc_per_node={count}",
        script,
    ]
    return subprocess.run(command, check=True)
