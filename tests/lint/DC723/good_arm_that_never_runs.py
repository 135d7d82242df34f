"""The load stands in the arm of a constant condition that never runs."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(8, 8).cuda()
    if 1:
        model.load_state_dict(torch.load("first.pt", map_location="cpu"))
    else:
        model.load_state_dict(torch.load("first.pt"))
    if not 0:
        pass
    else:
        model.load_state_dict(torch.load("second.pt"))
    state = torch.load("third.pt", map_location="cpu") if True else torch.load("third.pt")
    model.load_state_dict(state)
    model = DistributedDataParallel(model, device_ids=[local_rank])
    model(torch.ones(1, 8).cuda()).sum().backward()


if __name__ == "__main__":
    main()
