import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision


def worker(index, world_size, init_file):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=init_file, rank=index, world_size=world_size)
    data = torchvision.datasets.MNIST(root="data", download=True)  # expect: DC725
    size = torch.tensor([len(data)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(worker, args=(count, f"file:///tmp/init-{os.getpid()}"), nprocs=count)
