"""Deepspeed makes the group in any case; a switch decides about its engine alone."""
import argparse

import deepspeed
import torch


def main(model):
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--local_rank", type=int, default=0)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    deepspeed.init_distributed()
    if args.engine:
        engine, _, _, _ = deepspeed.initialize(args=args, model=model)
        print(engine)
