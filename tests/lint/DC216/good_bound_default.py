"""cuda without an index is the bound device."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda()
print(model(torch.ones(1, 4, device="cuda")))
dist.destroy_process_group()
