"""The helper runs the model if a number of ranks is given. Below the test of the rank, one is."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def score(model, best, world_size=None, value=None):
    several = True if world_size else False
    if several:
        value = model(torch.ones(4, 8).cuda()).sum().item()
    return max(best, value)


def report(model, quiet):
    if quiet:
        return
    model(torch.ones(4, 8).cuda())


def train(rank, world_size):
    several = True if world_size else False
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).cuda()
    if several:
        model = DistributedDataParallel(model, device_ids=[rank])
    model.train()
    for _ in range(3):
        value = model(torch.ones(4, 8).cuda()).sum()
        value.backward()
        if several:
            if rank == 0:
                best = score(model, 0, world_size=world_size, value=value.item())  # expect: DC704
                report(model, False)
                print(best)
        else:
            score(model, 0)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    train(rank, dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
