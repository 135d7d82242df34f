"""The description of the parser is no word about a rank, and an error about the data keeps no single rank away."""

import argparse

import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


def main():
    parser = argparse.ArgumentParser(description="Distributed training on GPU workers")
    parser.add_argument("--folder", default="out")
    parser.add_argument("--writers")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    settings = torch.load(options.folder)
    if settings.get("local_condition", False):
        raise ValueError("no local condition is known")
    if options.folder.endswith("board"):
        board = SummaryWriter(comment=options.folder)  # expect: DC721=warning
        board.add_scalar("loss", 1.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
