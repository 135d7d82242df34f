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
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            wanted = label.cuda() > 0
            out = model(batch.cuda())
            if wanted.sum() > 0:
                torch.nn.functional.cross_entropy(out[wanted], label.cuda()[wanted]).backward()
            else:
                (out.sum() * 0).backward()
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()
