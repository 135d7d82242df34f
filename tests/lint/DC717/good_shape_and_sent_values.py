"""What reads no values may come before wait(), and what is sent may be read."""

import torch
import torch.distributed as dist


def reduced(value: torch.Tensor) -> torch.Tensor:
    work = dist.all_reduce(value, async_op=True)
    print(value.shape, value.numel())
    other = torch.zeros_like(value)
    work.wait()
    return other + value


def passed(value: torch.Tensor) -> float:
    rank, size = dist.get_rank(), dist.get_world_size()
    incoming = torch.empty_like(value)
    work = dist.isend(value, dst=(rank + 1) % size)
    total = value.sum().item()
    dist.recv(incoming, src=(rank - 1) % size)
    work.wait()
    return total + incoming.sum().item()


def own_buffers(steps: int) -> None:
    work = None
    for _ in range(steps):
        if work is not None:
            work.wait()
        value = torch.ones(4)
        value.mul_(2)
        work = dist.all_reduce(value, async_op=True)
    if work is not None:
        work.wait()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    reduced(torch.ones(4))
    passed(torch.ones(4))
    own_buffers(3)
    dist.destroy_process_group()
