import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    begin, budget = time.monotonic(), 0.5
    steps = 0
    weight = torch.zeros(4)
    work = 0.1 if rank == 0 else 0.02
    elapsed = 0.0
    while elapsed < budget:
        gradient = torch.randn(4)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        time.sleep(work)
        steps += 1
        elapsed += work
    print(f"rank {rank}: {steps} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
