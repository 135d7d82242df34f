"""The load stands in the arm of a constant condition that always runs; a name that is a constant may be edited."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RESUME = True


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(8, 8).cuda()
    if 0:
        model.load_state_dict(torch.load("checkpoint.pt", map_location="cpu"))
    else:
        model.load_state_dict(torch.load("checkpoint.pt"))  # expect: DC723
    if RESUME:
        model.load_state_dict(torch.load("checkpoint.pt"))  # expect: DC723
    model = DistributedDataParallel(model, device_ids=[local_rank])
    model(torch.ones(1, 8).cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "checkpoint.pt")


if __name__ == "__main__":
    main()
