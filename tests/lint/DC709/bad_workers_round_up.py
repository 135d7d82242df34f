"""Rank 0 hands out the files in turn, and each worker rounds its share up: some wait for one file more."""

import math

import torch
import torch.distributed as dist

FILES = 7


def hand_out(workers):
    for number in range(FILES):
        dist.send(torch.tensor([number]), dst=number % workers + 1)


def work(workers):
    name = torch.zeros(1, dtype=torch.int64)
    for _ in range(math.ceil(FILES / workers)):
        dist.recv(name, src=0)  # expect: DC709


def main():
    dist.init_process_group("gloo")
    workers = dist.get_world_size() - 1
    hand_out(workers) if dist.get_rank() == 0 else work(workers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
