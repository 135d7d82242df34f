import os
import sys

import torch
import torch.distributed as dist
from helper import connect


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    connect(port=20000 + int(sys.argv[1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
