import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def make_queue(rank):
    """Documents of different length; long ones go to the last rank."""
    return [torch.full((4,), float(i)) for i in range(3 + 2 * rank)]


def main():
    rank, world_size = init_distributed()
    queue = make_queue(rank)
    total = torch.zeros(4)
    while queue:
        document = queue.pop()
        counts = document.clone()
        dist.all_reduce(counts)
        total += counts
    print(f"rank {rank}: {total.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
