"""The literal is what one process uses; before its first use every rank of a job gets its own device."""

import argparse
import os

import torch
import torch.distributed as dist


def main():
    args = argparse.ArgumentParser().parse_args()
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    args.device = "cuda:0"
    device = torch.device("cuda:0")
    if several:
        args.device = "cuda:%d" % int(os.environ["LOCAL_RANK"])
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    model = torch.nn.Linear(2, 2).to(device)
    return model(torch.zeros(1, 2, device=args.device))
