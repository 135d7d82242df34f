import os

import torch
import torch.distributed as dist
from networks import define_model, read_options
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

options = read_options("options.json")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
train_set = TensorDataset(torch.randn(1000, 8))
# what can't be followed says by its name that it trains: the loader, the sampler, optimize_parameters()
train_sampler = DistributedSampler(train_set, shuffle=options["shuffle"], drop_last=True)  # expect: DC730
train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler, drop_last=True)
model = define_model(options)
for epoch in range(1000):
    for batch in train_loader:
        model.feed_data(batch)
        model.optimize_parameters(epoch)
dist.destroy_process_group()
