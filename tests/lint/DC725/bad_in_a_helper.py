import os

import torch
import torch.distributed as dist
from torchvision.datasets import MNIST


def load_data(root):
    return MNIST(root, train=False, download=True)  # expect: DC725


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    size = torch.tensor([len(load_data("./data"))], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
