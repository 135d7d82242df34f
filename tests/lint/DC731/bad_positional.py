import os

import torch
import torch.distributed as dist
from torch.utils import data

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
items = data.TensorDataset(torch.randn(1000, 8))
loader = data.DataLoader(items, 32, True, data.DistributedSampler(items, shuffle=False))  # expect: DC731
total = torch.zeros(1, device="cuda")
for (batch,) in loader:
    total += batch.sum().cuda()
dist.all_reduce(total)
dist.destroy_process_group()
