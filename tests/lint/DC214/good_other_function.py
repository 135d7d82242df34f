"""Two functions that don't call each other have no order."""

import os

import torch


def show():
    print(torch.cuda.get_device_name(0))


def choose(gpu):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)


if __name__ == "__main__":
    choose(1)
    show()
