import torch
import torch.distributed as dist
from torch.autograd import Function


def _all_gather_base(output, tensor):
    return _Gather.apply(output, tensor)


def all_gather(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


class _Gather(Function):
    @staticmethod
    def forward(ctx, output, tensor):
        dist._all_gather_base(output, tensor)  # expect: DC760
        return output
