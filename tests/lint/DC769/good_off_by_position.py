"""The last argument of the scaler turns it off, or a name elsewhere holds bfloat16."""

import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision

DTYPE = torch.bfloat16


def off(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", 65536.0, 2.0, 0.5, 2000, False)
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def of_cuda(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.cuda.amp.GradScaler(65536.0, 2.0, 0.5, 2000, False)
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def in_bfloat16(batch):
    model = FSDP(torch.nn.Linear(2, 2), mixed_precision=MixedPrecision(param_dtype=DTYPE))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")  # expect: DC769=info
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
