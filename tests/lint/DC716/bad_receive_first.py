"""Both wait for what the other has not sent yet."""

import torch
import torch.distributed as dist


def shift(value: torch.Tensor, steps: int) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(steps):
        incoming = torch.empty_like(value)
        dist.recv(incoming, src=(rank - 1) % size)  # expect: DC716
        dist.send(value, dst=(rank + 1) % size)
        value = incoming
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    shift(torch.ones(4), 2)
    dist.destroy_process_group()
