import os

import torch
import torch.distributed as dist
from model import build

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(build())
print(model)
dist.destroy_process_group()
