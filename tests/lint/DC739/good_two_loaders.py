"""A small set is not divided. A training loader is evaluated by the same function, by all ranks alike."""

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


def main(train_data, held_back):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    if len(held_back) > 1000:
        rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    else:
        rest = DataLoader(held_back)
    whole = validate(model, DataLoader(train_data))
    loss = validate(model, rest)
    if dist.get_rank() == 0:
        print(whole)
        print(loss)
