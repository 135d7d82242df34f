import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(config, loader, net, scheduler):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    first = config.peers is not None and local_rank == 0
    model = FSDP(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    # another scheduler object, the same step
    if first:
        start_step = scheduler.last_epoch if config.resume else 0
    elif config.resume:
        start_step = config.scheduler.last_epoch
    else:
        start_step = 0
    for step, batch in enumerate(loader(local_rank), start=start_step * 4):
        is_accumulating = bool((step + 1) % 4)
        with model.no_sync() if is_accumulating else nullcontext():
            model(batch).sum().backward()
        if not is_accumulating:
            optimizer.step()
            optimizer.zero_grad()


def main(config, loader, net, scheduler):
    dist.init_process_group("nccl")
    train(config, loader, net, scheduler)
    dist.destroy_process_group()
