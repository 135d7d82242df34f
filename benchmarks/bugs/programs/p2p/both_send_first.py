import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def exchange(mine, peer):
    theirs = torch.empty_like(mine)
    dist.send(mine, dst=peer)
    dist.recv(theirs, src=peer)
    return theirs


def main():
    rank, _ = init_distributed()
    activations = torch.full((8_000_000,), float(rank))
    theirs = exchange(activations, peer=1 - rank)
    print(f"rank {rank} got {theirs[0].item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
