import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
net = torch.nn.Linear(8, 8).cuda()
weights = torch.load("model.pt", map_location=None)  # expect: DC723
net.load_state_dict(weights)
ddp = DDP(net)
ddp(torch.randn(4, 8, device="cuda")).sum().backward()
dist.destroy_process_group()
