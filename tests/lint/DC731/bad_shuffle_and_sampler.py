import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, shuffle=True, sampler=sampler)  # expect: DC731
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
