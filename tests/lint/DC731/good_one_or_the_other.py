import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    distributed = "LOCAL_RANK" in os.environ
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if distributed:
        dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    sampler = DistributedSampler(data, shuffle=False) if distributed else None
    total = torch.zeros(1, device="cuda")
    for (batch,) in DataLoader(data, batch_size=32, shuffle=(sampler is None), sampler=sampler):
        total += batch.sum().cuda()
    for (batch,) in DataLoader(data, batch_size=32, shuffle=not sampler, sampler=sampler):
        total += batch.sum().cuda()
    for (batch,) in DataLoader(data, batch_size=32, shuffle=not distributed, sampler=sampler):
        total += batch.sum().cuda()
    if distributed:
        dist.all_reduce(total)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
