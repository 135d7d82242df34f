import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def endless(data, sampler):
    while True:
        yield from DataLoader(data, batch_size=8, sampler=sampler)


def main(data, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    sampler = DistributedSampler(data)  # expect: DC730
    batches = endless(data, sampler)
    for step in range(steps):
        model(next(batches).cuda()).sum().backward()
        print(dist.get_rank(), step)
    dist.destroy_process_group()
