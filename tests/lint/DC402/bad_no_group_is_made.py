"""The workers evaluate apart from each other: nothing reads the port."""

import os

import torch
import torch.multiprocessing as mp


def work(rank, parts):
    torch.cuda.set_device(rank)
    print(rank, len(parts[rank]))


def main(parts):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "80000"  # expect: DC402=info
    mp.spawn(work, nprocs=2, args=(parts,))


if __name__ == "__main__":
    main([[1], [2]])
