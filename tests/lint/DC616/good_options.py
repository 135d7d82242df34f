"""The caller decides."""
import torch.distributed as dist


def share(box, **options):
    dist.broadcast_object_list(box, src=0, **options)
    return box
