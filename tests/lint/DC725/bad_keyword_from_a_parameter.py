import os

import torch
import torch.distributed as dist
from torchvision import datasets


def build(root, train, download=True):
    return datasets.FashionMNIST(root, train=train, download=download)  # expect: DC725


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    size = torch.tensor([len(build("data", train=True))], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
