"""The backend follows the machine, or the user."""
import argparse
import os

import torch
import torch.distributed as dist


def by_machine():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)
    if backend == "gloo":
        dist.monitored_barrier()


def by_user():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl", "mpi"])
    args = parser.parse_args()
    dist.init_process_group(args.backend)
    dist.monitored_barrier()


def main(machine):
    if machine:
        by_machine()
    else:
        by_user()
    dist.destroy_process_group()
