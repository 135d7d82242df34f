"""Each rank is the root once, and a message has another peer on each rank."""

import torch
import torch.distributed as dist


def rotate(tensors: list[torch.Tensor]) -> None:
    for rank in range(dist.get_world_size()):
        dist.broadcast(tensors[rank], src=rank)


def to_first(value: torch.Tensor) -> None:
    rank = dist.get_rank()
    if rank == 1:
        dist.broadcast(value, src=rank)
    else:
        dist.broadcast(value, src=1)


def within_node(value: torch.Tensor, group: dist.ProcessGroup) -> None:
    first = dist.get_rank() // 8 * 8
    dist.broadcast(value, src=first, group=group)


def own_slice(width: int) -> torch.Tensor:
    rank = dist.get_rank()
    part = torch.arange(rank * width, (rank + 1) * width)
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part)
    return torch.cat(parts)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rotate([torch.zeros(2) for _ in range(dist.get_world_size())])
    to_first(torch.zeros(2))
    within_node(torch.zeros(2), dist.new_subgroups(8)[0])
    own_slice(4)
    dist.destroy_process_group()
