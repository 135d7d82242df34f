"""Each rank has a saver; which path it takes is decided by an option, not by the rank."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Saver:
    def __init__(self, path):
        self.path = path

    def store(self, model):
        torch.save(model.state_dict(), self.path)  # expect: DC720


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    saver = Saver("last.pt")
    if "--fine" in sys.argv:
        saver = Saver("fine.pt")
    for _ in range(10):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        saver.store(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
