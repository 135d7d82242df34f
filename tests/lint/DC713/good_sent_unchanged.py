import torch
import torch.distributed as dist

dist.init_process_group("nccl")


def ring(x, weight, rank, world):
    sent, received, parts = x, torch.empty_like(x), []
    for step in range(world - 1):
        dist.isend(sent, (rank + 1) % world)
        work = dist.irecv(received, (rank - 1) % world)
        parts.append(torch.matmul(sent, weight))
        work.wait()
        sent = received.clone()
    return parts
