import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build(data, shuffle, sampler):
    return DataLoader(data, batch_size=16, shuffle=shuffle, sampler=sampler, num_workers=4)  # expect: DC731


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    total = torch.zeros(1, device="cuda")
    for (batch,) in build(data, True, DistributedSampler(data, shuffle=False)):
        total += batch.sum().cuda()
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
