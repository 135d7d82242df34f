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
    everyone = list(range(world_size))
    data = dist.new_group(everyone)
    control = dist.new_group([0])
    gradient = torch.ones(4) * rank
    dist.all_reduce(gradient, group=data)
    if rank == 0:
        dist.barrier(group=control)
    print(f"rank {rank}: {gradient.tolist()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
