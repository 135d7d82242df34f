"""Methods of a process group return a handle, always."""
import torch.distributed as dist


def summed(tensor):
    group = dist.group.WORLD
    work = group.allreduce([tensor])
    work.wait()
    return tensor
