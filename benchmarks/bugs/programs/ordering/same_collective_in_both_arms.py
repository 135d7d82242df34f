import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    if rank == 0:
        settings = [{"lr": 0.1, "steps": 3}]
        dist.broadcast_object_list(settings, src=0)
    else:
        settings = [None]
        dist.broadcast_object_list(settings, src=0)
    weight = torch.ones(4)
    for _ in range(settings[0]["steps"]):
        gradient = weight * (rank + 1)
        dist.all_reduce(gradient)
        weight -= settings[0]["lr"] * gradient / world_size
    if rank == 0:
        parts = [torch.empty(4) for _ in range(world_size)]
        dist.gather(weight, parts)
    else:
        dist.gather(weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
