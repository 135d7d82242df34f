import os
import subprocess


def start_one():
    os.system("python -m torch.distributed.launch --nproc_per_node=8 train.py --local")  # expect: DC801


def start_two(count):
    command = f"python3 -m torch.distributed.launch --nproc_per_node={count} train.py"  # expect: DC801
    subprocess.check_call(command, shell=True)
