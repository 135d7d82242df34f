"""The model is called where no other rank exists, whatever the test around that says."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def evaluate(model: torch.nn.Module) -> torch.Tensor:
    return model(torch.ones(1, 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))
    args = parser.parse_args()
    model = torch.nn.Linear(2, 2)
    if args.local_rank != -1:
        torch.cuda.set_device(args.local_rank)
        dist.init_process_group("nccl")
        model = DistributedDataParallel(model.cuda(), device_ids=[args.local_rank])
    if args.local_rank in [-1, 0]:
        if args.local_rank == -1:
            print(evaluate(model))
    if args.local_rank != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
