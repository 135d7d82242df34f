import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, path):
    if int(os.environ["RANK"]) != 0:
        return
    torch.save(model.module.state_dict(), path)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for epoch in range(5):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        save(model, "last.pt")
        if rank != 0:
            continue
        torch.save(model.module.state_dict(), f"epoch{epoch}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
