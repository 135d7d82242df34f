import os

import torch.distributed as dist
from options import get_options


def command(options, replaced):
    given = {**vars(options), **replaced}
    return "python main.py " + " ".join(f"--{name} {value}" for name, value in given.items())


def main():
    options = get_options()
    print(dist.is_available())
    for rank in range(options.processes):
        os.system(command(options, {"local_rank": rank}) + " &")


if __name__ == "__main__":
    main()
