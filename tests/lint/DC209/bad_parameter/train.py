import os

import torch.distributed as dist
from tools import announce


def main():
    dist.init_process_group("gloo")
    announce(os.environ["RANK"], "ready")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
