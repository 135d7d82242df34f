"""How often each arm loops can't be known here."""

import torch
import torch.distributed as dist


def stream(chunks: list, count: int) -> None:
    if dist.get_rank() == 0:
        for chunk in chunks:
            dist.broadcast(chunk, src=0)
    else:
        for _ in range(count):
            dist.broadcast(torch.empty(4), src=0)


def unrolled(first: torch.Tensor, second: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        dist.broadcast(first, src=0)
        dist.broadcast(second, src=0)
    else:
        for value in (first, second):
            dist.broadcast(value, src=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    stream([torch.ones(4)], 1)
    unrolled(torch.ones(1), torch.ones(1))
    dist.destroy_process_group()
