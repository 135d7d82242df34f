import os
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def is_main_process():
    return dist.get_rank() == 0


def main():
    rank, _ = init_distributed()
    lock = Path("run.lock")
    if is_main_process:
        lock.touch(exist_ok=False)
    dist.barrier()
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
