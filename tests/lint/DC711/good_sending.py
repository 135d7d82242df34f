"""The sender needs no result: send and the source of a scatter may give a temporary."""
import torch
import torch.distributed as dist


def hand_out(table, rank, world):
    if rank == 0:
        for other in range(1, world):
            dist.send(table[other].cpu(), dst=other)
        return table[0]
    part = torch.empty(16)
    dist.recv(part, src=0)
    return part
