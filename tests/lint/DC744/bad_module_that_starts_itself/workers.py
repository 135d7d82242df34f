import os

import torch.distributed as dist


def worker(rank, size):
    os.environ["MASTER_PORT"] = "8100"  # expect: DC744
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.destroy_process_group()
    return 0


status = worker(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
