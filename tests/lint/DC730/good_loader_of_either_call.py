import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def one_epoch(model, data_loader, epoch):
    data_loader.sampler.set_epoch(epoch)
    for batch in data_loader:
        model(batch.cuda()).sum().backward()


def main(flat, deep, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    flat_loader = DataLoader(flat, batch_size=4, sampler=DistributedSampler(flat))
    deep_loader = DataLoader(deep, batch_size=4, sampler=DistributedSampler(deep))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    for epoch in range(epochs):
        one_epoch(model, flat_loader, epoch)
        one_epoch(model, deep_loader, epoch)
    dist.destroy_process_group()
