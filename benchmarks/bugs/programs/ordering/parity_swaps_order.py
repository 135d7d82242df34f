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
    statistics = torch.ones(3) * rank
    threshold = torch.tensor([0.5]) if rank == 0 else torch.zeros(1)
    if rank % 2 == 0:
        dist.all_reduce(statistics)
        dist.barrier()
    else:
        dist.barrier()
        dist.all_reduce(statistics)
    dist.broadcast(threshold, src=0)
    mask = statistics / world_size > threshold
    print(f"rank {rank}: {mask.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
