"""contiguous() and to() return the tensor itself where nothing has to change."""
import torch.distributed as dist


def reduce_all(tensors, device):
    for tensor in tensors:
        dist.all_reduce(tensor.contiguous())
        dist.all_reduce(tensor.to(device))
    return tensors
