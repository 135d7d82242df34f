import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def step(model, optimizer, batch, label):
    loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
    if torch.isnan(loss):
        return  # expect: DC707
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            step(model, optimizer, batch, label)
    dist.destroy_process_group()
