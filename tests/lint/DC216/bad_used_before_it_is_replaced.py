"""The default is replaced, but the model is on GPU 0 of every rank by then."""

import argparse
import os

import torch
import torch.distributed as dist


def main():
    args = argparse.ArgumentParser().parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    args.device = "cuda:0"  # expect: DC216
    model = torch.nn.Linear(2, 2).to(args.device)
    args.device = "cuda:%d" % int(os.environ["LOCAL_RANK"])
    return model(torch.zeros(1, 2, device=args.device))


main()
