import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Loader(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch.cuda()


class Twice(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passes = 0


def main(data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    sampler = DistributedSampler(data)  # expect: DC730
    other = DistributedSampler(data)
    loader = Loader(data, batch_size=4, sampler=sampler)
    told = Twice(data, batch_size=4, sampler=other)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    for epoch in range(10):
        other.set_epoch(epoch)
        for batch in loader:
            model(batch).sum().backward()
        for batch in told:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()
