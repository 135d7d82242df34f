import os

import torch as th
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

th.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
net = th.nn.Linear(8, 8).cuda()
net.load_state_dict(th.load("pretrained.pth", weights_only=True), strict=False)  # expect: DC723
ddp = DDP(net, device_ids=[int(os.environ["LOCAL_RANK"])])
ddp(th.randn(4, 8, device="cuda")).sum().backward()
dist.destroy_process_group()
