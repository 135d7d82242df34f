"""Trains a small autoencoder on every GPU of the job."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, steps):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    model = DistributedDataParallel(model.to(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in zip(range(steps), batches, strict=False):
        loss = model(batch.to(local_rank)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 1000 == 0:
            torch.save(model.module.state_dict(), "autoencoder.pt")
    dist.destroy_process_group()
