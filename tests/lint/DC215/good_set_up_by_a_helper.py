"""A helper replaces the -1 of its parameter, or asserts that there is none; what comes after gets a number."""

import argparse
import os

import torch
import torch.distributed as dist


def set_up(params):
    if "SLURM_LOCALID" in os.environ:
        params.local_rank = int(os.environ["SLURM_LOCALID"])
    elif params.local_rank != -1:
        params.world_size = int(os.environ["WORLD_SIZE"])
    else:
        params.local_rank = 0
    torch.cuda.set_device(params.local_rank)
    if params.world_size > 1:
        dist.init_process_group("nccl")


def build(params, path):
    return torch.load(path, map_location=lambda storage, location: storage.cuda(params.local_rank))


class Student:
    def __init__(self, params):
        self.params = params

    def step(self, batch):
        return batch.to(f"cuda:{self.params.local_rank}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    parser.add_argument("--world_size", type=int, default=1)
    args = parser.parse_args()
    set_up(args)
    state = build(args, "model.pt")
    print(Student(args).step(torch.ones(1)), state)


if __name__ == "__main__":
    main()
