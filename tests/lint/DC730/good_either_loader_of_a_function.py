import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler


class ByLength(Sampler):
    def __init__(self, lengths):
        self.lengths = lengths
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        return iter(torch.randperm(len(self.lengths), generator=generator).tolist())


def loader_of(data, lengths, by_length=True, several=False):
    if by_length:
        return DataLoader(data, batch_size=4, sampler=ByLength(lengths))
    sampler = DistributedSampler(data) if several else None
    return DataLoader(data, batch_size=4, sampler=sampler)


def train(model, loader, epoch):
    if dist.is_initialized():
        loader.sampler.set_epoch(epoch)
    for batch in loader:
        model(batch.cuda()).sum().backward()


def main(data, lengths, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = DDP(torch.nn.Linear(4, 4).cuda())
    loader = loader_of(data, lengths, by_length=True, several=dist.is_initialized())
    for epoch in range(epochs):
        train(model, loader, epoch)
    dist.destroy_process_group()
