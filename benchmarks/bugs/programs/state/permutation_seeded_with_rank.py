import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Series(Dataset):
    def __init__(self, length):
        generator = torch.Generator().manual_seed(12)
        self.values = torch.randn(length, 6, generator=generator)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


class BucketedBatches:
    def __init__(self, length, batch_size, seed):
        self.length, self.batch_size, self.seed, self.epoch = length, batch_size, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.length // (self.batch_size * dist.get_world_size())

    def __iter__(self):
        order = list(range(self.length))
        random.Random(self.seed + self.epoch).shuffle(order)
        own = order[dist.get_rank() :: dist.get_world_size()]
        for batch in range(len(self)):
            yield own[batch * self.batch_size : (batch + 1) * self.batch_size]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(6)
    data = Series(64)
    sampler = BucketedBatches(len(data), 4, seed=100 + rank)
    loader = DataLoader(data, batch_sampler=sampler)
    ddp = DistributedDataParallel(nn.Linear(6, 6))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    sampler.set_epoch(0)
    for inputs in loader:
        loss = (ddp(inputs) - inputs.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
