import os

import torch


def describe():
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def main():
    print(describe())
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # expect: DC214
    print(torch.zeros(1).cuda())


if __name__ == "__main__":
    main()
