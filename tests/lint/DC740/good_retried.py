"""Elastic rounds: what ends a round is not the end."""
import os

import torch
import torch.distributed as dist


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()


def train(rounds):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for _ in range(rounds):
        dist.init_process_group("nccl")
        try:
            dist.barrier()
        except RuntimeError:
            cleanup()
            continue
        print(dist.get_rank())
        cleanup()


def leave(early):
    if early:
        cleanup()
        raise SystemExit(1)
    print(dist.get_rank())
