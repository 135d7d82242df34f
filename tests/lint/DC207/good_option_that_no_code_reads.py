import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.save({}, args.out)
    return dist.is_available()


main()
