"""An attribute of the namespace is filled from the environment."""

import argparse
import os

import torch
import torch.distributed as dist


def init_distributed(args):
    args.rank = int(os.environ["RANK"])
    args.world_size = int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(args.rank)  # expect: DC201=info
    dist.init_process_group("nccl", rank=args.rank, world_size=args.world_size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    init_distributed(args)
    model = torch.nn.Linear(4, 4).cuda(args.rank)  # expect: DC201=info
    print(model.weight.device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
