import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = 0.0
    for batch, label in loader:
        total += torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda()).item()
    return total / len(loader)


def main(train_data, held_back, epochs):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for epoch in range(epochs):
        loss = validate(model.module, DataLoader(held_back))  # the same number on every rank
        scheduler.step(loss)
        print(rank, loss)
    dist.destroy_process_group()
