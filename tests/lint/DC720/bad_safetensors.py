import os

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[int(os.environ["LOCAL_RANK"])])
model(torch.randn(2, 8, device="cuda")).sum().backward()
dist.barrier()
save_file(model.module.state_dict(), "model.safetensors")  # expect: DC720=warning
dist.destroy_process_group()
