import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build(data, distributed, **options):
    if distributed:
        options.update(sampler=DistributedSampler(data, shuffle=False), shuffle=False)
    else:
        options["sampler"] = RandomSampler(data)
    return DataLoader(data, **options)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    total = torch.zeros(1, device="cuda")
    for (batch,) in build(TensorDataset(torch.randn(1000, 8)), True, batch_size=4):
        total += batch.sum().cuda()
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
