import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build(data, distributed):
    if distributed:
        sampler = DistributedSampler(data, shuffle=False)
        shuffle = False
    else:
        sampler = None
        shuffle = True
    return DataLoader(data, batch_size=32, shuffle=shuffle, sampler=sampler)


def build_again(data, distributed):
    sampler, shuffle = None, True
    if distributed:
        sampler, shuffle = DistributedSampler(data, shuffle=False), False
    return DataLoader(data, batch_size=32, shuffle=shuffle, sampler=sampler)


def main():
    distributed = "LOCAL_RANK" in os.environ
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if distributed:
        dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    total = torch.zeros(1, device="cuda")
    for (batch,) in build(data, distributed):
        total += batch.sum().cuda()
    for (batch,) in build_again(data, distributed):
        total += batch.sum().cuda()
    if distributed:
        dist.all_reduce(total)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
