import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def mean_of_ranks(value):
    total = torch.tensor(value, device="cuda")
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


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
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    held_back_loader = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    best = float("inf")
    for epoch in range(epochs):
        loss = mean_of_ranks(validate(model, held_back_loader))
        scheduler.step(loss)
        if loss < best:
            best = loss
            dist.barrier()
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "best.pt")
    dist.destroy_process_group()
