import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = seen = 0
    for batch, label in loader:
        hits += (model(batch.cuda()).argmax(1) == label.cuda()).sum().item()
        seen += len(label)
    return hits / seen


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    held_back_loader = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    best = 0.0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
        value = accuracy(model, held_back_loader)
        if dist.get_rank() == 0 and value > best:
            best = value
            torch.save(model.module.state_dict(), "best.pt")  # expect: DC739=info
    dist.destroy_process_group()


def wait_for_the_best(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    held_back_loader = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    best = 0.0
    for epoch in range(epochs):
        value = accuracy(model, held_back_loader)
        if value > best:
            best = value
            dist.barrier()  # expect: DC739
            print(dist.get_rank(), epoch)
    dist.destroy_process_group()
