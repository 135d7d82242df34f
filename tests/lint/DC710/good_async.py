"""With async_op the call returns a handle, and the handle is what these use."""
import torch.distributed as dist


def overlap(bucket, layer, inputs):
    work = dist.all_reduce(bucket, async_op=True)
    out = layer(inputs)
    work.wait()
    return out


def reduce_now(bucket):
    dist.all_reduce(bucket, async_op=True).wait()


def reduce_later(bucket, overlapped):
    work = dist.all_reduce(bucket, async_op=overlapped)
    if overlapped:
        work.wait()
    return bucket


def reduce_options(bucket, **options):
    work = dist.all_reduce(bucket, **options)
    return work.is_completed()
