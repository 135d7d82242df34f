import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def make_loader(whole):
    if whole:
        data = TensorDataset(torch.randn(1000, 8))
        return DataLoader(data, batch_size=32, shuffle=True)
    data = TensorDataset(torch.randn(100, 8))
    return DataLoader(data, batch_size=32, shuffle=True)  # expect: DC732=warning


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loader = make_loader(os.environ.get("QUICK") is None)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch.cuda()).sum().backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
