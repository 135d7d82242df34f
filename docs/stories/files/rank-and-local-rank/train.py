"""Trains a small autoencoder on every GPU of the job."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, steps):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in zip(range(steps), batches, strict=False):
        loss = model(batch.to(rank)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if int(os.environ["LOCAL_RANK"]) == 0 and step % 1000 == 0:
            torch.save(model.module.state_dict(), "autoencoder.pt")
    dist.destroy_process_group()
