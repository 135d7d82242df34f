import torch
import torch.distributed as dist
from packaging.version import Version

NEW = Version(torch.__version__) >= Version("1.13")


def scatter_sum(output, whole):
    if NEW:
        dist.reduce_scatter_tensor(output, whole)
    else:
        dist._reduce_scatter_base(output, whole)
    return output


def gather_all(output, part):
    try:
        dist.all_gather_into_tensor(output, part)
    except AttributeError:
        dist._all_gather_base(output, part)
    return output
