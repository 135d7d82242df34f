import os

import torch
import torch.distributed as dist
from torchvision.datasets import MNIST


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = MNIST(f"/scratch/data-{dist.get_rank()}", download=True)
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
