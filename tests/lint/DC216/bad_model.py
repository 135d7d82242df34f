import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda(0)  # expect: DC216
model = DistributedDataParallel(model, device_ids=[0])  # expect: DC216
model(torch.ones(1, 4, device="cuda:0")).sum().backward()  # expect: DC216
dist.destroy_process_group()
