"""The ranks agree on infinite gradients by hand, or the scaler is off by its last argument."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def agree(scaler, optimizer):
    for found_inf in scaler._found_inf_per_device(optimizer).values():
        dist.all_reduce(found_inf, op=dist.ReduceOp.MAX)


def train(batch):
    model = FSDP(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(batch).sum()).backward()
    scaler.unscale_(optimizer)
    agree(scaler, optimizer)
    scaler.step(optimizer)
    scaler.update()
