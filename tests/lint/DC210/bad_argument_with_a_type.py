import argparse
import os

import torch.distributed as dist


def connect(rank, port):
    os.environ["RANK"] = str(rank)
    os.environ["MASTER_PORT"] = port  # expect: DC210
    dist.init_process_group("gloo")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=12355)
    parser.add_argument("--rank", type=int, default=0)
    args = parser.parse_args()
    connect(args.rank, args.port)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
