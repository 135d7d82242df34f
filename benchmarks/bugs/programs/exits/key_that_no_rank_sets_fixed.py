import os
from datetime import timedelta

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("tokenizer-ready", "1")
    else:
        store.wait(["tokenizer-ready"], timedelta(minutes=10))
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
