"""All classes are counted once more, so each rank has as many counts."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


@torch.no_grad()
def evaluate(model, loader):
    for x, labels in loader:
        found = model(x).argmax(1)
        every = torch.arange(4, device=found.device)
        counts = torch.bincount(torch.cat([found, every])) - 1
        dist.all_reduce(counts)
        kept = torch.where(found == labels, input=found, other=labels)
        dist.all_reduce(kept)


def main(data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    evaluate(model, DataLoader(data, batch_size=8, shuffle=True))
    dist.destroy_process_group()
