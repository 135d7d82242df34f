import os

import torch.distributed as dist


def place():
    return int(os.environ.get("LOCAL_RANK", 0)) or None  # expect: DC211


def main():
    dist.init_process_group("gloo")
    print("device index", place())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
