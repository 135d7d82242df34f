import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def counts_of(rank, labels):
    if rank == 0:
        histogram = torch.zeros(4, dtype=torch.long)
    else:
        histogram = torch.zeros(4, dtype=torch.long)
    for label in labels:
        histogram[label] += 1
    return histogram


def main():
    rank, _ = init_distributed()
    histogram = counts_of(rank, [0, 1, 1, 3] if rank == 0 else [2, 2, 3])
    dist.all_reduce(histogram)
    if rank == 0:
        assert histogram.tolist() == [1, 2, 2, 2], histogram
        print(histogram.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
