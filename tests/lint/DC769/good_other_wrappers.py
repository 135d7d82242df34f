"""The gradients of DDP are whole, and those of FSDP2 are tensors whose check exchanges the result."""

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def ddp(batch):
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def fsdp2(batch):
    model = torch.nn.Linear(2, 2)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
