import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main(data, most):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), drop_last=True)
    criterion = torch.nn.CrossEntropyLoss(reduction="none")
    seen = 0
    loaders = [loader]
    steps = sum(len(one_loader) for one_loader in loaders)
    for batch, label in loader:
        losses = criterion(model(batch.cuda()), label.cuda())
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        seen += len(losses) * dist.get_world_size()
        if seen + batch.size(0) >= most or seen == steps:
            break
    dist.destroy_process_group()
