"""The rank is a field of a dataclass, and passed by keyword."""

import os
from dataclasses import dataclass

import torch


@dataclass
class Context:
    rank: int
    world_size: int


def context():
    return Context(rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


def main():
    ctx = context()
    torch.cuda.set_device(device=ctx.rank)  # expect: DC201=info
    print(torch.ones(ctx.world_size, device="cuda"))


if __name__ == "__main__":
    main()
