import os
import torch
import torch.distributed as dist


def setup(rank=None, world_size=None):
    if rank is None:
        rank = int(os.getenv("LOCAL_RANK", 0))
    if world_size is None:
        world_size = int(os.getenv("WORLD_SIZE", 1))
    if world_size <= 1:
        return rank
    dist.init_process_group(backend="gloo", rank=rank, world_size=world_size)
    return rank


if __name__ == "__main__":
    setup(int(os.environ["RANK"]))
    dist.destroy_process_group()
