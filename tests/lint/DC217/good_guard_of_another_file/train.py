"""That another script knows both ranks shows nothing about the hosts of this one."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def train(model, steps, folder):
    for step in range(steps):
        if int(os.environ["LOCAL_RANK"]) == 0:
            torch.save(model.state_dict(), f"{folder}/{step}.pt")  # expect: DC217=info
