"""The loop's variable is called rank, and every process runs through all its values."""

import torch
import torch.distributed as dist


def in_turn(value: torch.Tensor) -> None:
    for rank in range(dist.get_world_size()):
        if rank == dist.get_rank():
            print(rank, value)
        if rank == 0:
            dist.barrier()
        dist.broadcast(value, src=rank)
        if rank > 0:
            dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    in_turn(torch.ones(2))
    dist.destroy_process_group()
