"""The function that starts the group replaces the default."""

import argparse
import os

import torch
import torch.distributed as dist


def start(args):
    dist.init_process_group("nccl")
    args.device = f"cuda:{int(os.environ['LOCAL_RANK'])}"
    torch.cuda.set_device(args.device)


def main():
    args = argparse.ArgumentParser().parse_args()
    args.device = "cuda:0"
    start(args)
    return torch.nn.Linear(2, 2).to(args.device)


main()
