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
    files = ["a.bin", "b.bin"]
    mine = files[rank::world_size]
    if not mine:
        print(f"rank {rank} has nothing to do")
        return
    total = torch.tensor([float(len(mine))])
    dist.all_reduce(total)
    parts = [torch.zeros(1) for _ in range(world_size)]
    dist.all_gather(parts, total)
    if rank == 0:
        print(f"{total.item()} files")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
