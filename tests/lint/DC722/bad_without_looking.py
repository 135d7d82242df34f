import argparse
import os
from os import makedirs

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    makedirs(os.path.join(args.output, "images"), 0o755)  # expect: DC722
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
