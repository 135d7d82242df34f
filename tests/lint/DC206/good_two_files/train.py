"""The device is bound by whoever calls the helper."""

import os

import torch
import torch.distributed as dist
from comm import setup


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    setup()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
