import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.preload()

    def preload(self):
        self.batch = next(self.batches, None)

    def next(self):
        batch = self.batch
        self.preload()
        return batch


def train(model, loader):
    prefetcher = Prefetcher(loader)
    batch = prefetcher.next()
    while batch is not None:
        model(batch.cuda()).sum().backward()
        batch = prefetcher.next()


def validate(model, loader):
    prefetcher = Prefetcher(loader)
    batch = prefetcher.next()
    while batch is not None:
        model(batch.cuda())
        batch = prefetcher.next()


def main(data, val_data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    train_loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))  # expect: DC730
    val_loader = DataLoader(val_data, batch_size=4, sampler=DistributedSampler(val_data))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    for _ in range(10):
        train(model, train_loader)
        validate(model, val_loader)
    dist.destroy_process_group()
