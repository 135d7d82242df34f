"""A launcher of its own sets the variable for its children."""

import os
import subprocess
import sys

for index in range(2):
    os.environ["LOCAL_RANK"] = str(index)
    subprocess.Popen([sys.executable, "worker.py"])
