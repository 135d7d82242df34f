"""The object that the loop trains from is the one whose loader is not divided."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Loaders:
    def __init__(self, mode):
        self.samples = TensorDataset(torch.randn(1000, 8))
        if mode == "divided":
            self.data = DataLoader(self.samples, batch_size=32, sampler=DistributedSampler(self.samples))
        elif mode == "train":
            self.data = DataLoader(self.samples, batch_size=1, shuffle=True)  # expect: DC732


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    others = Loaders("divided")
    loaders = Loaders("train")
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for (batch,) in loaders.data:
        model(batch.cuda()).sum().backward()
    print(len(others.data))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
