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
    train_data = TensorDataset(torch.randn(1000, 8))
    test_data = TensorDataset(torch.randn(100, 8))
    train_sampler = DistributedSampler(train_data)  # expect: DC730
    test_sampler = DistributedSampler(test_data, shuffle=False)
    train_loader = DataLoader(train_data, batch_size=32, sampler=train_sampler)
    test_loader = DataLoader(test_data, batch_size=32, sampler=test_sampler)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for epoch in range(10):
        test_sampler.set_epoch(epoch)
        for (batch,) in train_loader:
            model(batch.cuda()).sum().backward()
        with torch.no_grad():
            for (batch,) in test_loader:
                model(batch.cuda())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
