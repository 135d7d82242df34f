import os
import subprocess
import sys


def evaluate(scripts):
    environment = os.environ.copy()
    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        environment.pop(variable, None)
    children = []
    for script in scripts:
        environment["SCRIPT"] = script
        children.append(subprocess.Popen([sys.executable, script], env=environment))
    for child in children:
        child.wait()


if __name__ == "__main__":
    evaluate(sys.argv[1:])
