import os

import torch
import torch.distributed as dist
from torchvision.datasets import CIFAR10


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        CIFAR10("data", download=True)
    dist.barrier()
    data = CIFAR10("data", download=False)
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
