import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def endless(loader):
    while True:
        for batch in loader:
            yield batch


class Trainer:
    def __init__(self, data, held_back):
        self.batches = endless(DataLoader(data, batch_size=8, sampler=DistributedSampler(data)))  # expect: DC730
        self.val_batches = endless(DataLoader(held_back, batch_size=8, sampler=DistributedSampler(held_back)))

    def fit(self, model, steps):
        for step in range(steps):
            model(next(self.batches).cuda()).sum().backward()
            print(dist.get_rank(), step)


def main(data, held_back, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    Trainer(data, held_back).fit(DistributedDataParallel(torch.nn.Linear(4, 4).cuda()), steps)
    dist.destroy_process_group()
