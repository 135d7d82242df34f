"""The constructor sets another value on each path, or raises; options that can't be seen may be filled in."""

import argparse
import os

import torch
from toolbox import init_distributed_mode


class Environment:
    def __init__(self):
        self.local_rank = -1
        if "SLURM_JOB_ID" in os.environ:
            return self.from_slurm()
        if "LOCAL_RANK" in os.environ:
            return self.from_launcher()
        raise RuntimeError("no launcher")

    def from_slurm(self):
        self.local_rank = int(os.environ["SLURM_LOCALID"])

    def from_launcher(self):
        self.local_rank = int(os.environ["LOCAL_RANK"])


def never_called(args):
    return torch.device("cuda", args.local_rank)


def main():
    torch.cuda.set_device(Environment().local_rank)
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    options = parser.parse_args()
    init_distributed_mode(options)
    print(torch.zeros(1).cuda(options.local_rank))


if __name__ == "__main__":
    main()
