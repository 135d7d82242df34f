import torch
import torch.distributed as dist


def own_copy(x, alone):
    out = [torch.empty_like(x)] * 1
    dist.all_gather(out, x, group=alone)
    return out[0]
