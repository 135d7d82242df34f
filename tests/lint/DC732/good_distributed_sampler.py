import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    distributed = "LOCAL_RANK" in os.environ
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(8, 1).cuda()
    if distributed:
        dist.init_process_group("nccl")
        model = DDP(model, device_ids=[local_rank])
    data = TensorDataset(torch.randn(1000, 8))
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(data, batch_size=32, sampler=sampler, shuffle=sampler is None)
    for epoch in range(10):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()


if __name__ == "__main__":
    main()
