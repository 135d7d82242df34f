import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Data:
    def __init__(self):
        self.data = TensorDataset(torch.randn(1000, 8))

    def sampler(self, distributed):
        if not distributed:
            return None
        return DistributedSampler(self.data)  # expect: DC730

    def loader(self, distributed=False):
        return DataLoader(self.data, sampler=self.sampler(distributed), batch_size=8)


def loader_of(data, whole=True):
    if whole:
        return DataLoader(data, batch_size=8, shuffle=True)
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data))  # expect: DC730


def train(model, loader):
    for _ in range(10):
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")
    model = DDP(torch.nn.Linear(8, 1).cuda())
    train(model, Data().loader())
    train(model, Data().loader(distributed=True))
    train(model, loader_of(TensorDataset(torch.randn(1000, 8)), whole=False))


if __name__ == "__main__":
    main()
