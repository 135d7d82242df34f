"""Both arms call the same: only the arguments differ, as they must."""

import torch
import torch.distributed as dist


def collect(value: torch.Tensor) -> list:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        parts = [torch.empty_like(value) for _ in range(size)]
        dist.gather(value, parts, dst=0)
    else:
        parts = []
        dist.gather(value, dst=0)
    return parts


def hand_out(config: dict | None) -> dict:
    if dist.get_rank() == 0:
        box = [config]
        dist.broadcast_object_list(box, src=0)
    else:
        box = [None]
        dist.broadcast_object_list(box, src=0)
    return box[0] or {}


def scatter(chunks: torch.Tensor) -> torch.Tensor:
    mine = torch.empty(4)
    main = dist.get_rank() == 0
    dist.scatter(mine, list(chunks.split(4))) if main else dist.scatter(mine)
    return mine


if __name__ == "__main__":
    dist.init_process_group("gloo")
    collect(torch.ones(1))
    hand_out({"steps": 3})
    scatter(torch.ones(8))
    dist.destroy_process_group()
