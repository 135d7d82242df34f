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
    halves = [[0, 1], [2, 3]]
    groups = [dist.new_group(ranks) for ranks in halves]
    for ranks, group in zip(halves, groups):
        if rank not in ranks:
            continue
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=group)
        dist.broadcast(total, src=ranks[0], group=group)
        print(f"rank {rank}: {total.item()}")
    leaders = dist.new_group([0, 2])
    if rank in (0, 2):
        dist.barrier(group=leaders)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
