import os
import subprocess
import sys

subprocess.run(["torchrun", "--standalone", "train.py"], check=True)
done = subprocess.run(["torchrun", "--standalone", "train.py"])
if done.returncode:
    print("failed")
sys.exit(os.system("torchrun --standalone train.py") >> 8)
