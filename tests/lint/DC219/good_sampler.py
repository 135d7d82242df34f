import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
data = TensorDataset(torch.arange(100.0))
sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=False)
other = DistributedSampler(data, shuffle=False)
print(len(sampler), len(other))
dist.destroy_process_group()
