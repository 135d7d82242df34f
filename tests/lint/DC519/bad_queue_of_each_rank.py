"""Each rank empties a list of its own length, and reduces in each turn."""

import os

import torch
import torch.distributed as dist


def shards(rank):
    return [f"part-{rank}-{number}" for number in range(4 + rank)]


def main():
    dist.init_process_group("gloo")
    left = shards(int(os.environ["RANK"]))
    done = torch.zeros(1)
    while left:
        left.pop()
        done += 1
        dist.all_reduce(done)  # expect: DC519
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
