import math
import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
TASKS = 7


def main():
    rank, world_size = init_distributed()
    workers = world_size - 1
    if rank == 0:
        for task in range(TASKS):
            dist.send(torch.tensor([float(task)]), dst=1 + task % workers)
    else:
        expected = math.ceil(TASKS / workers)
        done = 0.0
        for _ in range(expected):
            task = torch.empty(1)
            dist.recv(task, src=0)
            done += task.item()
        print(f"rank {rank}: {done}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
