"""The parameter's name says nothing; the caller gives the global rank."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def place(model, index):
    torch.cuda.set_device(index)  # expect: DC201=info
    model = model.to(index)  # expect: DC201=info
    return DistributedDataParallel(model, device_ids=[index])  # expect: DC201=info


def main():
    dist.init_process_group("nccl")
    model = place(torch.nn.Linear(4, 4), dist.get_rank())
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
