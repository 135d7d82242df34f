import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.getenv("RANK", -1))
LOCAL_RANK = int(os.getenv("LOCAL_RANK", -1))
WORLD_SIZE = int(os.getenv("WORLD_SIZE", 1))


def run():
    if RANK != -1:
        torch.cuda.set_device(LOCAL_RANK)
        dist.init_process_group(backend="nccl")
    device = torch.device("cuda", max(LOCAL_RANK, 0))
    net = torch.nn.Linear(4, 4).to(device)
    model = DDP(net, device_ids=[LOCAL_RANK]) if RANK != -1 else net
    model(torch.ones(1, 4, device=device)).sum().backward()
    if WORLD_SIZE > 1:
        # true on every rank of a distributed job: no guard
        torch.save(net.state_dict(), "weights.pt")  # expect: DC720=warning
    if RANK != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    run()
