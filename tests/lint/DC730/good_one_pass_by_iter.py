import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)

    def next(self):
        return next(self.batches, None)


def main(data, more, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    sampler = DistributedSampler(more)
    other = DataLoader(more, batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    batches = Prefetcher(loader)
    for _ in range(steps):
        model(batches.next().cuda()).sum().backward()
    for epoch in range(10):
        sampler.set_epoch(epoch)
        rest = iter(other)
        for _ in range(len(other)):
            model(next(rest).cuda()).sum().backward()
    dist.destroy_process_group()
