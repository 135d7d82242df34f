import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    first = dist.new_group([0, 1, 2])
    second = dist.new_group([0, 1])
    a, b = torch.ones(2), torch.ones(3)
    if rank == 0:
        dist.all_reduce(b, group=second)
        dist.all_reduce(a, group=first)
    else:
        dist.all_reduce(a, group=first)
        if rank == 1:
            dist.all_reduce(b, group=second)
    print(f"rank {rank}: {a.tolist()} {b.tolist()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
