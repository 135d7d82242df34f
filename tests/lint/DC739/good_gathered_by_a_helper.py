import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def validate(model, loader, group):
    model.eval()
    hits, count = 0, 0
    for batch, label in loader:
        hits += (model(batch.cuda()).argmax(1) == label.cuda()).sum().item()
        count += len(label)
    return group.gather(hits) / group.gather(count)


def warm_up(model, loader, optimizer):
    """It trains: eval() is switched back."""
    model.eval()
    model.train()
    total = 0.0
    for batch, label in loader:
        loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
        optimizer.step(loss)
        total += loss.item()
    if dist.get_rank() == 0:
        print(total)


def main(data, held_back, group, optimizer):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    warm_up(model, DataLoader(data, sampler=DistributedSampler(data)), optimizer)
    accuracy = validate(model, DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False)), group)
    if dist.get_rank() == 0:
        print(accuracy)
    dist.destroy_process_group()
