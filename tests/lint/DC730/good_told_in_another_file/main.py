import os

import torch
import torch.distributed as dist
from data.build import build_loader
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    train_loader = build_loader()
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for epoch in range(90):
        train_loader.sampler.set_epoch(epoch)
        for (batch,) in train_loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
