import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Data:
    def __init__(self):
        self.items = TensorDataset(torch.randn(1000, 8))
        self.sampler = DistributedSampler(self.items, shuffle=False)

    def loader(self):
        return DataLoader(self.items, sampler=self.sampler, shuffle=True)  # expect: DC731


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    total = torch.zeros(1, device="cuda")
    for (batch,) in Data().loader():
        total += batch.sum().cuda()
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
