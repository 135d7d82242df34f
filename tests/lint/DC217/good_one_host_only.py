"""Nothing shows a second host, and on one the two ranks are the same."""

import os

import torch
import torch.distributed as dist

RANK = int(os.environ["LOCAL_RANK"])
dist.init_process_group("gloo")


def save(model, path):
    if RANK == 0:
        torch.save(model.state_dict(), path)  # expect: DC217=info
