import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, sampler=sampler)
    best, waited = 1e9, 0
    all_of_it = DataLoader(held_back, batch_size=4)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        total = 0.0
        with torch.no_grad():
            for batch, label in all_of_it:
                total += torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda()).item()
        if total < best:
            best, waited = total, 0
        else:
            waited += 1
        if waited > 5:
            break
    dist.destroy_process_group()
