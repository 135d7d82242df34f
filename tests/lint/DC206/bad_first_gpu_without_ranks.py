"""Only the run without other ranks uses the current GPU."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    distributed = bool(os.environ.get("SEVERAL"))
    if distributed:
        dist.init_process_group(backend="nccl")  # expect: DC206=info
        local_rank = int(os.environ["LOCAL_RANK"])
        device = torch.device("cuda", local_rank)
    else:
        device = torch.device("cuda")
    if distributed:
        dist.barrier()
    model = torch.nn.Linear(4, 4)
    if distributed:
        model = DistributedDataParallel(model.cuda(local_rank), device_ids=[local_rank])
    else:
        model = model.cuda()
    model(torch.ones(1, 4, device=device)).sum().backward()
