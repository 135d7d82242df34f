import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, distributed

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
data = TensorDataset(torch.randn(1000, 8))
loader = DataLoader(data, batch_size=32, sampler=distributed.DistributedSampler(data, shuffle=True))  # expect: DC730
model = DDP(torch.nn.Linear(8, 1).cuda())
epoch = 0
while epoch < 10:
    for (batch,) in loader:
        model(batch.cuda()).sum().backward()
    epoch += 1
dist.destroy_process_group()
