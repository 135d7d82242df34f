"""The program takes the part of each rank itself: in a sampler, in a data set, and with a slice."""

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler


class InOrder(Sampler):
    def __init__(self, data):
        self.data, self.rank, self.size = data, dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        indices = list(range(len(self.data)))
        return iter(indices[self.rank :: self.size])

    def __len__(self):
        return len(self.data) // self.size


class Part(Dataset):
    def __init__(self, data, rank=0, size=1):
        each = len(data) // size
        self.data = data[rank * each : (rank + 1) * each]

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


def set_up():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return DDP(torch.nn.Linear(4, 4).cuda())


def with_a_sampler(held_back):
    model = set_up()
    loss = validate(model, DataLoader(held_back, sampler=InOrder(held_back)))
    if dist.get_rank() == 0:
        print(loss)  # expect: DC739=info


def with_a_data_set(held_back):
    model = set_up()
    loss = validate(model, DataLoader(Part(held_back, dist.get_rank(), dist.get_world_size())))
    if dist.get_rank() == 0:
        with open("result.json", "w") as file:
            json.dump({"loss": loss}, file)  # expect: DC739=info


def with_a_slice(held_back):
    model = set_up()
    part = held_back[dist.get_rank() :: dist.get_world_size()]
    loss = validate(model, DataLoader(part))
    if dist.get_rank() == 0:
        print(loss)  # expect: DC739=info
