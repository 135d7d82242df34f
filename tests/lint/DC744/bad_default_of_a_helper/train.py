import os

import torch
import torch.distributed as dist
from helper import connect


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    connect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
