import os
from os import environ, getenv

import torch.distributed as dist


def is_main():
    return os.getenv("RANK", "0") == 0  # expect: DC209


def is_first_here():
    return environ.get("LOCAL_RANK", 0) == 0  # expect: DC209


def distributed():
    return getenv("WORLD_SIZE") != 1  # expect: DC209


def main():
    dist.init_process_group("gloo")
    print(is_main(), is_first_here(), distributed())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
