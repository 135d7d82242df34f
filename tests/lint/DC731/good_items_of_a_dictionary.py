import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main(data, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = DistributedSampler(data)
    options = {"batch_size": 4, "sampler": sampler}
    options.update(dict(pin_memory=True, shuffle=False))
    options["num_workers"] = 2
    loader = DataLoader(data, **options)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()
