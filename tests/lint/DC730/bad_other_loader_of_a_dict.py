import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def build(train_data, test_data, distributed):
    if distributed:
        train_sampler = DistributedSampler(train_data, shuffle=True)  # expect: DC730
        test_sampler = DistributedSampler(test_data, shuffle=False)
    else:
        train_sampler = test_sampler = None
    train_loader = DataLoader(train_data, batch_size=4, sampler=train_sampler, shuffle=train_sampler is None)
    test_loader = DataLoader(test_data, batch_size=4, sampler=test_sampler)
    return {"train": train_loader, "test": test_loader, "steps": len(train_loader)}


class Solver:
    def __init__(self, model, loaders):
        self.model = model
        self.loaders = loaders

    def train_epoch(self):
        for batch in self.loaders["train"]:
            self.model(batch.cuda()).sum().backward()

    def test_epoch(self, epoch):
        self.loaders["test"].sampler.set_epoch(epoch)
        with torch.no_grad():
            for batch in self.loaders["test"]:
                self.model(batch.cuda())

    def train(self, epochs):
        for epoch in range(epochs):
            self.train_epoch()
            self.test_epoch(epoch)


def main(train_data, test_data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    loaders = build(train_data, test_data, dist.is_initialized())
    Solver(DDP(torch.nn.Linear(4, 4).cuda()), loaders).train(epochs=5)
    dist.destroy_process_group()
