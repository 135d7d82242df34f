import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def follow(average, model):
    for one, other in zip(average.parameters(), model.parameters()):
        one.data.mul_(0.99).add_(other.data, alpha=0.01)


def evaluate(average, batch):
    with torch.no_grad():
        return average(batch).norm().item()


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    average = torch.nn.Linear(4, 4).cuda()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if dist.get_rank() == 0:
                follow(average, model)
        if dist.get_rank() == 0:
            print(evaluate(average, batch.cuda()))
    dist.destroy_process_group()
