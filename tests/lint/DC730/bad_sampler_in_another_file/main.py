import os

import torch
import torch.distributed as dist
from data import build_loader
from torch.nn.parallel import DistributedDataParallel as DDP


def train_one_epoch(model, loader):
    model.train()
    for (batch,) in loader:
        model(batch.cuda()).sum().backward()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    train_loader, sampler = build_loader()
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for epoch in range(90):
        train_one_epoch(model, train_loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
