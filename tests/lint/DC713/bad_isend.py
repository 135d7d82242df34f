import torch
import torch.distributed as dist


def shift(x, rank, world):
    received = torch.empty_like(x)
    dist.isend(x, dst=(rank + 1) % world)  # expect: DC713
    dist.irecv(received, src=(rank - 1) % world)  # expect: DC713
    return received
