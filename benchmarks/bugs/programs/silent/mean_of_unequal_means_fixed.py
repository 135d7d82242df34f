import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def accuracy(right, count):
    both = torch.tensor([float(right), float(count)])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


def main():
    rank, _ = init_distributed()
    right, count = (2, 8) if rank == 0 else (1, 2)
    value = accuracy(right, count)
    if rank == 0:
        print(f"accuracy {value:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
