import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
local_rank = dist.get_rank()
data = TensorDataset(torch.arange(100.0))
print(len(DistributedSampler(data, dist.get_world_size(), local_rank, shuffle=False)))
dist.destroy_process_group()
