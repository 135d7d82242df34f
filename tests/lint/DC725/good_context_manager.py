import contextlib
import os

import torch
import torch.distributed as dist
from torchvision.datasets import CIFAR100


@contextlib.contextmanager
def zero_first(local_rank):
    if local_rank != 0:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    with zero_first(local_rank):
        data = CIFAR100("data", download=True)
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
