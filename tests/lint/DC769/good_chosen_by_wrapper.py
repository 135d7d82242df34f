"""The scaler and the wrapper are chosen together, or the precision needs no scaler."""

import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel


def chosen(batch, fsdp):
    model = FSDP(torch.nn.Linear(2, 2)) if fsdp else DistributedDataParallel(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = ShardedGradScaler() if fsdp else torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def one_wrapper(batch, strategy):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    loss = model(batch).sum()
    if strategy != "fsdp":
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def of_bfloat16(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")  # expect: DC769=info
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
