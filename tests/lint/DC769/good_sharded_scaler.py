"""The scaler of FSDP, one that is off, and whole gradients."""

import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def step(scaler, model, optimizer, batch):
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def sharded(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    step(ShardedGradScaler(), model, optimizer, batch)


def off(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def whole(batch):
    strategy = ShardingStrategy.NO_SHARD
    model = FSDP(torch.nn.Linear(2, 2), sharding_strategy=strategy)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
