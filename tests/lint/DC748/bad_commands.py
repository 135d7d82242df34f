import os
import subprocess
import sys


def launch(script, count):
    children = []
    environment = os.environ.copy()
    environment["MASTER_PORT"] = os.environ["JOB_PORT"]
    for rank in range(count):
        environment["RANK"] = str(rank)
        environment["WORLD_SIZE"] = str(count)
        children.append(subprocess.Popen([sys.executable, script], env=environment))
    for child in children:
        child.wait()  # expect: DC748


if __name__ == "__main__":
    launch(sys.argv[1], 2)
