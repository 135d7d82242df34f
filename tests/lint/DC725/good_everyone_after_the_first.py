import os

import torch
import torch.distributed as dist
import torchvision


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        torchvision.datasets.MNIST("data", download=True)
    dist.barrier()
    # finds the files, downloads nothing
    data = torchvision.datasets.MNIST("data", download=True)
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
