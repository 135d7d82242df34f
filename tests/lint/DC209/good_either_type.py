import os

import torch.distributed as dist


def verbose():
    value = os.environ.get("VERBOSE", "0")
    return value == "1" or value == 1


def is_main():
    rank = os.environ.get("RANK", 0)
    return rank == 0 or rank == "0"


def main():
    dist.init_process_group("gloo")
    if is_main() and verbose():
        print("main")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
