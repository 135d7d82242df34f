"""A name is None on all ranks but the first, and every rank uses what it is named for."""

import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


def train(model, loader, optimizer):
    dist.init_process_group("nccl")
    writer = None
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
    for step, batch in enumerate(loader):
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss.item(), step)  # expect: DC708=warning
    if writer is not None:
        writer.close()
    torch.cuda.synchronize()
    dist.destroy_process_group()
