import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


def main(data, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    options = dict(batch_size=4, shuffle=True)
    options["num_workers"] = 2
    loader = DataLoader(data, **options)  # expect: DC732=warning
    for _ in range(epochs):
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch.cuda()), label.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()
