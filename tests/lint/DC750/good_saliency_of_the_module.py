import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model: DDP, loader: list, optimizer: torch.optim.Optimizer) -> None:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


def saliency(network: torch.nn.Module, loader: list) -> list:
    found = []
    for batch in loader:
        batch.requires_grad_()
        loss = network.encoder(batch).sum()
        loss.backward()
        found.append(batch.grad)
    return found


def main(network: torch.nn.Module, loader: list, args: object) -> None:
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = network
    inner = model
    if args.distributed:
        model = DDP(model, device_ids=[local_rank])
        inner = model.module
    train(model, loader, torch.optim.SGD(model.parameters(), 0.1))
    saliency(inner, loader)
