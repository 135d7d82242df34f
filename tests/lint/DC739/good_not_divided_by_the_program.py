"""All ranks evaluate the same: the sampler, the data set and the slice know no rank, or only the training has parts."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler


class InOrder(Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(range(len(self.data)))

    def __len__(self):
        return len(self.data)


class Part(Dataset):
    def __init__(self, data, rank, size, trains):
        self.data = data
        if trains:
            self.data = data[rank::size]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Whole(Dataset):
    def __init__(self, data, rank=0, size=1):
        self.data = data[rank::size]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch, label in loader:
            total += torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda()).item()
    return total / len(loader)


def main(train_data, held_back):
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    whole = DistributedSampler(held_back, num_replicas=1, rank=0, shuffle=False)
    found = [
        validate(model, DataLoader(held_back, sampler=InOrder(held_back))),
        validate(model, DataLoader(held_back, sampler=whole)),
        validate(model, DataLoader(Part(held_back, rank, size, False))),
        validate(model, DataLoader(Whole(held_back))),
        validate(model, DataLoader(held_back[: len(held_back) // 2])),
    ]
    if rank == 0:
        print(found)
    dist.barrier()
    return Whole(train_data, rank, size)
