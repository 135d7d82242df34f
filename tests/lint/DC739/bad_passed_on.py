"""Two functions pass the metric on to the one that keeps the best model."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def validate(model, loader):
    total = 0.0
    for batch, label in loader:
        model.eval()
        total += torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda()).item()
    model.train()
    return {"loss": total / len(loader)}


def one_epoch(model, optimizer, loader, rest):
    for batch, label in loader:
        loss = torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = validate(model, rest)
    return found


def print_rank_0(*texts):
    if dist.get_rank() == 0:
        print(*texts)


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    best = 1e9
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = one_epoch(model, optimizer, loader, rest)["loss"]
        if loss < best:
            best = loss
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "best.pt")  # expect: DC739=info
    dist.destroy_process_group()


def once(held_back):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    print_rank_0("loss", validate(model, rest))  # expect: DC739=info
    dist.destroy_process_group()
