import os
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ByLength(BatchSampler):
    def __init__(self, sampler, batch_size, lengths):
        super().__init__(sampler, batch_size, drop_last=False)
        self.lengths = lengths

    def __iter__(self):
        for batch in sorted(super().__iter__(), key=lambda batch: self.lengths[batch[0]]):
            random.shuffle(batch)
            yield batch

    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)


def make_loader(data):
    sampler = DistributedSampler(data)
    batches = ByLength(sampler, 8, [len(row) for (row,) in data])
    return DataLoader(data, batch_sampler=batches)


def train_one_epoch(model, loader):
    for (batch,) in loader:
        model(batch.cuda()).sum().backward()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    loader = make_loader(TensorDataset(torch.randn(1000, 8)))
    model = DDP(torch.nn.Linear(8, 1).cuda())
    for epoch in range(10):
        loader.batch_sampler.set_epoch(epoch)
        train_one_epoch(model, loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
