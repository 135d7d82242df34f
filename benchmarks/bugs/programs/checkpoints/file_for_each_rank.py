import os
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def save_shard(state, folder, rank):
    torch.save(state, folder / f"shard_{rank}.pt")


def main():
    rank, world_size = init_distributed()
    folder = Path("shards")
    folder.mkdir(parents=True, exist_ok=True)
    save_shard({"weight": torch.full((4,), float(rank))}, folder, rank)
    dist.barrier()
    shards = [torch.load(folder / f"shard_{i}.pt")["weight"] for i in range(world_size)]
    assert torch.cat(shards).sum().item() == 4.0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
