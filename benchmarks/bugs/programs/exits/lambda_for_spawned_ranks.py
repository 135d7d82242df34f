import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world_size, schedule):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29777")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    value = torch.tensor([schedule(rank)])
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


def half(step):
    return 0.5 * step


def main():
    mp.spawn(worker, args=(2, lambda step: 0.5 * step), nprocs=2)


if __name__ == "__main__":
    main()
