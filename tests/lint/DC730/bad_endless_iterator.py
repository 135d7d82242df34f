import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(data, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    sampler = DistributedSampler(data)  # expect: DC730
    loader = DataLoader(data, sampler=sampler, batch_size=8)
    batches = iter(loader)
    for step in range(steps):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        model(batch.cuda()).sum().backward()
        print(dist.get_rank(), step)
    dist.destroy_process_group()
