import argparse
import os

import torch
import torch.distributed as dist
from settings import remember


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="out")
    parser.add_argument("--classes", type=int, default=10)
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    remember(options)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
