"""One class makes the loader of each mode: that of the training is divided, and that of the test is not meant to be."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Loaders:
    def __init__(self, mode):
        self.samples = TensorDataset(torch.randn(1000, 8))
        if mode == "train":
            self.sampler = DistributedSampler(self.samples)
            self.data = DataLoader(self.samples, batch_size=32, sampler=self.sampler)
        elif mode == "held_out":
            self.data = DataLoader(self.samples, batch_size=1, shuffle=True)
        elif mode == "online_eval":
            self.data = DataLoader(self.samples, batch_size=1, shuffle=True)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loaders = Loaders("train")
    held_out = Loaders("online_eval").data
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        loaders.sampler.set_epoch(epoch)
        for (batch,) in loaders.data:
            optimizer.zero_grad()
            model(batch.cuda()).sum().backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(sum(float(model.module(batch.cuda()).sum()) for (batch,) in held_out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
