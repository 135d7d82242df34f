import os
import sys

status = 0
for part in ("a", "b"):
    status |= os.system(f"torchrun --standalone train.py --part {part}")
sys.exit(status != 0)
