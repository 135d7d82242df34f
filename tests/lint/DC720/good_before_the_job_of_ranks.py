"""Another command of the script, which no job of several ranks takes, writes a list."""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(local_rank: int) -> None:
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
    model(torch.rand(2, 4).cuda()).sum().backward()
    dist.destroy_process_group()


def prepare(out: str) -> None:
    with open(os.path.join(out, "files.json"), "w") as file:
        json.dump(os.listdir("."), file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepare", default="")
    args = parser.parse_args()
    if args.prepare:
        prepare(args.prepare)
    else:
        train(int(os.environ["LOCAL_RANK"]))


if __name__ == "__main__":
    main()
