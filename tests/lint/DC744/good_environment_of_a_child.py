import os
import subprocess
import sys


def start(script, ranks):
    children = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks))
        environment["MASTER_ADDR"] = "127.0.0.1"
        environment["MASTER_PORT"] = "12355"
        children.append(subprocess.Popen([sys.executable, script], env=environment))
    return [child.wait() for child in children]
