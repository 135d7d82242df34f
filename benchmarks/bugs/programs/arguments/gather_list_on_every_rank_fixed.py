import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def collect(tensor, dst=0):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.gather(tensor, parts if dist.get_rank() == dst else None, dst=dst)
    return torch.cat(parts)


def main():
    rank, _ = init_distributed()
    losses = torch.full((3,), float(rank))
    collected = collect(losses)
    if rank == 0:
        print(collected.tolist())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
