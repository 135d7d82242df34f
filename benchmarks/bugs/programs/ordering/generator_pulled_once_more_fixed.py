import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def batches(rank, steps):
    """Rank 0 reads, all others receive."""
    for step in range(steps):
        batch = torch.full((4, 8), float(step)) if rank == 0 else torch.empty(4, 8)
        dist.broadcast(batch, src=0)
        yield batch


def main():
    rank, _ = init_distributed()
    source = batches(rank, steps=6)
    first = next(source)
    if rank == 0:
        print("sample", first.mean().item())
    weight = torch.zeros(8)
    for step, batch in enumerate(source):
        weight += batch.mean(0)
        dist.all_reduce(weight)
        if step == 3:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
