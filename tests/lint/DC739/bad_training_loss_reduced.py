"""The loss of the training is that of all ranks. What the evaluation finds is not."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def mean_of_ranks(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


def validate(model, loader):
    model.eval()
    hits, counts = [0] * 2, [0] * 2
    for batch, label in loader:
        with torch.no_grad():
            right = model(batch.cuda()).argmax(1) == label.cuda()
        hits[0] += right.sum().item()
        counts[0] += len(label)
    return sum(hits) / sum(counts)


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.all_reduce(torch.zeros(1, device="cuda"))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max")
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    for epoch in range(epochs):
        model.train()
        sampler.set_epoch(epoch)
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(mean_of_ranks(loss).item())
        schedule.step(validate(model, rest))  # expect: DC739
    dist.destroy_process_group()
