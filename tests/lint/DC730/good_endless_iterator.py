import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(data, other, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler, batch_size=8)
    fixed = DataLoader(other, sampler=DistributedSampler(other, shuffle=False), batch_size=8)
    batches, more = iter(loader), iter(fixed)
    passes = 0
    for step in range(steps):
        try:
            batch = next(batches)
            extra = next(more)
        except StopIteration:
            passes += 1
            sampler.set_epoch(passes)
            batches, more = iter(loader), iter(fixed)
            batch, extra = next(batches), next(more)
        model(batch.cuda() + extra.cuda()).sum().backward()
        print(dist.get_rank(), step)
    dist.destroy_process_group()
