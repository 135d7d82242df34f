import shlex
from subprocess import Popen


def start(script):
    words = shlex.split("python -m torch.distributed.launch --use_env --nproc_per_node 4")  # expect: DC801
    return Popen(words + [script])
