"""The nodes here are those of a graph, and a literal one is a single host: nothing shows a second one."""

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch_geometric.data import Data

trainer = pl.Trainer(devices=2, num_nodes=1)
data = Data(num_nodes=100)
print(data.num_nodes)
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())  # expect: DC201=info
