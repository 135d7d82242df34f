import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    samples = torch.arange(11, dtype=torch.float)
    share = samples[rank::world_size]
    scores = share.square()
    dist.all_reduce(scores)
    print(f"rank {rank} mean {scores.mean().item() / world_size}")
    weight = torch.zeros(4)
    dist.broadcast(weight, src=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
