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
    data = TensorDataset(torch.randn(101, 8))
    train_sampler = DistributedSampler(data, shuffle=False)
    sampler = DistributedSampler(data, shuffle=False, drop_last=True)
    model = DDP(torch.nn.Linear(8, 4).cuda(), device_ids=[local_rank])
    for (batch,) in DataLoader(data, batch_size=8, sampler=train_sampler):
        model(batch.cuda()).sum().backward()
    with torch.no_grad():
        for (batch,) in DataLoader(data, batch_size=8, sampler=sampler):
            model(batch.cuda())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
