"""The source keeps its value, the others lose what they get; a broadcast of a copy is also used to check shapes."""
import torch.distributed as dist


def share(weights):
    dist.broadcast(weights.clone(), src=0)  # expect: DC711=info
    dist.all_reduce(weights.clone())  # expect: DC711
    return weights
