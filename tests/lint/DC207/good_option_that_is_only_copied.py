import argparse
import os

import torch
from trlib import train_all


def settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    found = {"config": args.config}
    found["local_rank"] = args.local_rank
    return found


def main():
    found = settings()
    train_all(torch.load(found["config"], weights_only=True), folder=os.getcwd())


if __name__ == "__main__":
    main()
