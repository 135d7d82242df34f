import os
import subprocess

os.system("echo torchrun")
os.system("mkdir -p runs/deepspeed")
subprocess.run(["pip", "install", "deepspeed"])
subprocess.Popen(["torchrun", "--standalone", "train.py"])
