import subprocess
import sys


def start(script, count):
    subprocess.run(["torchrun", f"--nproc-per-node={count}", script], check=True)
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", script], check=True)
