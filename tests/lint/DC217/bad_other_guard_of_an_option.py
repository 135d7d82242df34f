"""As many scripts of transformers: the last write is guarded by the global rank, those in between are not."""

import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
parser.add_argument("--do_train", action="store_true")
args = parser.parse_args()
if args.local_rank != -1:
    dist.init_process_group("gloo")


def train(model):
    for step in range(10):
        if args.local_rank in [-1, 0] and step % 5 == 0:
            model.save_pretrained(f"checkpoint-{step}")  # expect: DC217
    if args.do_train and (args.local_rank == -1 or torch.distributed.get_rank() == 0):
        model.save_pretrained("last")
