import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tracking import start_tracking

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
start_tracking("digits")
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
model(torch.ones(1, 2, device="cuda")).sum().backward()
dist.destroy_process_group()
