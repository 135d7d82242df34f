import os

import torch
import torch.distributed as dist
from torchvision import datasets


def sets(folder):
    train = datasets.FashionMNIST(folder, train=True, download=True)  # expect: DC725
    # both splits are there by now
    test = datasets.FashionMNIST(folder, train=False, download=True)
    return train, test


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    train, test = sets("data")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
