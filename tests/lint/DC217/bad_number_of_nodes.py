"""The list of hosts is read: each of them has a first process that writes."""

import os

import torch
import torch.distributed as dist

hosts = os.environ["SLURM_JOB_NODELIST"]
dist.init_process_group("gloo")


def save(model, path):
    if int(os.environ["LOCAL_RANK"]) == 0:
        torch.save(model.state_dict(), path)  # expect: DC217
