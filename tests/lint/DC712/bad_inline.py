import torch
from torch.distributed import all_gather, get_world_size


def sizes(length, device):
    buffer = torch.zeros(1, dtype=torch.long, device=device)
    all_gather([buffer] * get_world_size(), torch.tensor([length], device=device))  # expect: DC712
    return buffer
