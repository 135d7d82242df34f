import torch.distributed as dist


def overlap(bucket, layer, inputs):
    work = dist.all_reduce(bucket)  # expect: DC710
    out = layer(inputs)
    work.wait()
    return out
