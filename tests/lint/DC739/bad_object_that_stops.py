import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

class Stopper:
    def __init__(self):
        self.best, self.waited, self.stops = 1e9, 0, False

    def __call__(self, value):
        self.waited = 0 if value < self.best else self.waited + 1
        self.best = min(value, self.best)
        self.stops = self.waited > 5


class Meter:
    def __init__(self):
        self.total = self.count = 0

    def update(self, value, count):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / self.count


@torch.no_grad()
def validate(model, loader):
    model.eval()
    meter = Meter()
    for batch, label in loader:
        loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
        meter.update(loss.item(), len(label))
    return meter.mean


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    held_back_loader = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    best, waited = 1e9, 0
    stopper = Stopper()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        stopper(validate(model, held_back_loader))
        if stopper.stops:
            break  # expect: DC739
    dist.destroy_process_group()
