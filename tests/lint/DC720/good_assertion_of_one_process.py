"""The search asserts that there is no launcher; an export runs in one process, and says so."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def keep(path, model):
    torch.save(model.state_dict(), path)


def train(options):
    model = torch.nn.Linear(2, 2)
    if options.local_rank != -1:
        dist.init_process_group("gloo")
        model = DDP(model)
    return model


def search(options):
    assert options.local_rank == -1, "one process only"
    keep("best.pt", train(options))


def export(options):
    distributed = False
    model = torch.nn.Linear(2, 2)
    if distributed:
        model = DDP(model)
    torch.save(model.state_dict(), "exported.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--export", action="store_true")
    args = parser.parse_args()
    if args.search:
        search(args)
    elif args.export:
        export(args)
    else:
        train(args)
