import os

import torch
import torch.distributed as dist
from torchvision.datasets import SVHN


def build(root, download):
    return SVHN(root, download=download)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if local_rank == 0:
        build("data", True)
    dist.barrier()
    data = build("data", False)
    again = SVHN("data", download=(dist.get_rank() == 0))
    size = torch.tensor([len(data) + len(again)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
