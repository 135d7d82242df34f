import logging
import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
RECORDS = ["1 2 3", "4 5 6", "7 oops 9", "10 11 12"]


def parse(line):
    return torch.tensor([float(word) for word in line.split()])


def main():
    rank, world_size = init_distributed()
    running = torch.zeros(3)
    for line in RECORDS[rank::world_size]:
        try:
            values = parse(line)
        except ValueError as error:
            logging.warning("rank %d skips a record: %s", rank, error)
            values = torch.zeros(3)
        dist.all_reduce(values)
        running += values
    print(f"rank {rank}: {running.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
