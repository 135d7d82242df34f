import os

import torch
import torch.distributed as dist
from torchvision.datasets import CIFAR10


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if local_rank != 0:
        dist.barrier()
    # the first rank of each host comes here first and downloads, the others find the files
    data = CIFAR10("data", download=True)
    if local_rank == 0:
        dist.barrier()
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
