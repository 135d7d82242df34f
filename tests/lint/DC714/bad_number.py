import os

import torch
import torch.distributed as dist


def train(model, loader, optimizer):
    running = 0.0
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
        running += loss.item()
    dist.all_reduce(running)  # expect: DC714


def main(model, loader, optimizer):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    train(model, loader, optimizer)
    dist.destroy_process_group()
