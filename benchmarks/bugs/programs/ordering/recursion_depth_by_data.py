import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def split(points, level=0):
    """Split at the global mean until parts are small."""
    moments = torch.tensor([points.sum().item(), float(len(points))])
    dist.all_reduce(moments)
    mean = moments[0] / moments[1].clamp(min=1)
    below = points[points < mean]
    if len(below) <= 2:
        return level
    return split(below, level + 1)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(rank)
    points = torch.rand(6 if rank == 0 else 400)
    depth = split(points)
    shared = torch.tensor([depth])
    dist.broadcast(shared, src=0)
    print(f"rank {rank}: depth {depth}, rank 0 {shared.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
