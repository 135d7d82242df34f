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
    loss = torch.tensor(1.0 + rank)
    dist.all_reduce(loss / world_size)
    print(f"rank {rank} mean {loss.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
