"""Gloo where there is no GPU, or whatever the user says."""
import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="nccl")
    args = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(args.backend)
    total = torch.tensor(3.0)
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
