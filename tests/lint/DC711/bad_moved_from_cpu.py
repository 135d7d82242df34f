import torch
import torch.distributed as dist


def count(loader, device):
    seen = torch.zeros(1)
    for batch in loader:
        seen += len(batch)
    dist.all_reduce(seen.to(device))  # expect: DC711
    return int(seen)
