"""A switch decides whether deepspeed is used; without it torch makes the group, and another launcher starts this."""
import argparse

import deepspeed
import torch
import torch.distributed as dist


def main(model):
    parser = argparse.ArgumentParser()
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--local_rank", type=int, default=0)  # expect: DC207
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    if args.deepspeed:
        engine, _, _, _ = deepspeed.initialize(args=args, model=model)
        print(engine)
    else:
        dist.init_process_group("nccl")
        dist.barrier()
        dist.destroy_process_group()
