import os
from itertools import cycle

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main(train_data, held_back, steps):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(held_back)
    loader = DataLoader(held_back, sampler=sampler)
    held_back_batches = iter(cycle(loader))
    for _ in range(steps):
        batch, label = next(held_back_batches)
        print(model(batch.cuda()))
    dist.destroy_process_group()
