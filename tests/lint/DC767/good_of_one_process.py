"""A port of a world of one, and a folder of each process."""

import os
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def set_up():
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        os.environ["MASTER_PORT"] = str(random.randint(20000, 30000))


def alone():
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT=str(random.randint(20000, 30000)))


def main():
    set_up()
    alone()
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(10, 10))
    cache = f"/tmp/triton_{os.getpid()}"
    os.makedirs(cache, exist_ok=True)
    os.environ["TRITON_CACHE_DIR"] = cache
    print(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
