import os

import torch
import torch.distributed as dist


def reduce(value: torch.Tensor) -> torch.Tensor:
    rank = int(os.environ.get("RANK", "-1"))
    if rank == -1:
        return value
    if rank < 0 or not dist.is_initialized():
        return value
    if dist.get_world_size() < 2:
        return value
    dist.all_reduce(value)
    return value


def synchronize() -> None:
    if not dist.is_available():
        return
    if not dist.is_initialized():
        return
    world_size = dist.get_world_size()
    if world_size == 1:
        return
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    reduce(torch.ones(1))
    synchronize()
    dist.destroy_process_group()
