import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset, random_split

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(int(time.time()))
train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])  # expect: DC733
size = torch.tensor([len(train) + len(valid)], device="cuda")
dist.all_reduce(size)
dist.destroy_process_group()
