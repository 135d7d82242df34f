import argparse
import os

import torch.distributed as dist


def start(address, rank, size):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="env://")
    args = parser.parse_args()
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    start(args.url, rank, int(os.environ["OMPI_COMM_WORLD_SIZE"]))


if __name__ == "__main__":
    main()
