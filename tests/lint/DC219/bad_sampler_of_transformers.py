import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from transformers.trainer_pt_utils import SequentialDistributedSampler

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
data = TensorDataset(torch.arange(100.0))
sampler = SequentialDistributedSampler(data, dist.get_world_size(), local_rank)  # expect: DC219=info
print(len(DataLoader(data, sampler=sampler)))
dist.destroy_process_group()
