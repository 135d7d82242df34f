"""The group is started by somebody else: a wrapped model is enough to know that there are several ranks."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(setup, model, loader):
    setup()
    device = torch.device("cuda:0")  # expect: DC216
    model = DistributedDataParallel(
        model.to(device),
        device_ids=[0],  # expect: DC216
    )
    for batch in loader:
        model(batch).sum().backward()
    print(dist.get_rank())
