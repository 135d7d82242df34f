"""A variable that is named rank, and holds the local one."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).to(rank)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
model(torch.ones(1, 4, device=f"cuda:{rank}")).sum().backward()
dist.destroy_process_group()
