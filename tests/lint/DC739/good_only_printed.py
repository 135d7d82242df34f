import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = 0.0
    for batch, label in loader:
        total += torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda()).item()
    return total / len(loader)


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    held_back_loader = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    for epoch in range(epochs):
        print(dist.get_rank(), validate(model, held_back_loader))
        scheduler.step(epoch)
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"epoch{epoch}.pt")
    dist.destroy_process_group()


def write_parts(model, loader):
    hits, labels = [], []
    with torch.no_grad():
        for batch, label in loader:
            hits.append(model(batch.cuda()).argmax(1).cpu())
            labels.append(label)
    if hits:
        torch.save((hits, labels), f"part{dist.get_rank()}.pt")


def parts(held_back):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    write_parts(model, DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False)))
    dist.destroy_process_group()
